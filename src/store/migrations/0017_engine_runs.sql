-- What a run needs to be read while it goes and after a restart, when it is an engine; empty for other commands.
ALTER TABLE runs ADD COLUMN engine TEXT;
ALTER TABLE runs ADD COLUMN output TEXT;
ALTER TABLE runs ADD COLUMN spender TEXT;
ALTER TABLE runs ADD COLUMN model TEXT;
ALTER TABLE runs ADD COLUMN conversation TEXT;
-- Why it was to be ended: a request or the budget.
ALTER TABLE runs ADD COLUMN cancel_cause TEXT;
-- A member's status and why it ended follow from its run; the note tells why there was none to its end.
ALTER TABLE squad_members DROP COLUMN status;
-- Runs of before: members know their engine, and the command of a task tells its own. A run that is open now is read on.
UPDATE runs SET output = 'words', spender = 'member',
    engine = (SELECT m.engine FROM squad_members m WHERE m.run_id = runs.id),
    conversation = (SELECT m.chat_id FROM squad_members m WHERE m.run_id = runs.id)
    WHERE id IN (SELECT run_id FROM squad_members WHERE run_id IS NOT NULL AND engine IS NOT NULL);
UPDATE runs SET output = 'events', spender = 'agent', engine = CASE
        WHEN argv LIKE '["claude",%' THEN 'claude'
        WHEN argv LIKE '["codex",%' OR argv LIKE '["sh","-c",%"knowing",%,"codex",%' THEN 'codex'
        WHEN argv LIKE '["sh","-c",%"knowing",%,"claude",%' THEN 'claude'
        WHEN argv LIKE '%,"demo-engine"]' THEN 'demo'
        WHEN argv LIKE '["cursor-agent",%' THEN 'cursor-agent'
    END
    WHERE purpose LIKE 'task %';
UPDATE runs SET output = NULL, spender = NULL WHERE engine IS NULL;
