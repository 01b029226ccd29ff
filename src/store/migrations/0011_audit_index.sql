-- Which call an operation came from, without walking the trail.
CREATE INDEX audit_operation ON audit (operation_id) WHERE operation_id IS NOT NULL;
