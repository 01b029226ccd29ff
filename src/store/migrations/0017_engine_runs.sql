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
