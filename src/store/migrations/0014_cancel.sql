-- Someone wants the operation to end without its result.
ALTER TABLE operations ADD COLUMN cancel_by TEXT;
ALTER TABLE operations ADD COLUMN cancel_at INTEGER;
