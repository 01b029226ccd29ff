-- The usage of a continued conversation before its run, which the totals of engines include. Earlier runs have none.
ALTER TABLE runs ADD COLUMN before_input_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN before_output_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN before_cost_micros INTEGER;
