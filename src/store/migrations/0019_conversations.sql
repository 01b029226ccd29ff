-- The usage of a continued conversation before its run. Figures of a turn lack it, and totals of an engine lack the runs
-- that were killed. Runs from before this step have none.
ALTER TABLE runs ADD COLUMN before_input_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN before_output_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN before_cost_micros INTEGER;
