-- Outputs are long and go after a while; the runs that wrote them stay, and say so.
ALTER TABLE runs ADD COLUMN output_removed_at INTEGER;
CREATE INDEX runs_with_output ON runs (ended_at) WHERE output_removed_at IS NULL AND ended_at IS NOT NULL;
