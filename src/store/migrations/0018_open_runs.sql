-- The predicate of an index must be written as in the queries that use it.
DROP INDEX runs_open;
CREATE INDEX runs_open ON runs (created_at) WHERE NOT is_cleared;
