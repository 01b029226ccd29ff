-- Processes inside workspaces: what was asked, how far each has come, and the beginning of what it wrote.
-- Input and variables of a command may be secret and are nowhere in here.
CREATE TABLE runs (
    id BLOB PRIMARY KEY NOT NULL,
    agent_id BLOB NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    generation INTEGER NOT NULL,
    purpose TEXT NOT NULL,
    -- a JSON list of words
    argv TEXT NOT NULL,
    container TEXT,
    timeout_ms INTEGER NOT NULL,
    state TEXT NOT NULL,
    -- an exit code or the number of a signal
    code INTEGER,
    reason TEXT,
    stdout INTEGER NOT NULL,
    stderr INTEGER NOT NULL,
    cancel_asked_at INTEGER,
    created_at INTEGER NOT NULL,
    ended_at INTEGER,
    -- whether the workspace was told to forget it
    is_cleared INTEGER NOT NULL
) STRICT;
CREATE INDEX runs_open ON runs (created_at) WHERE is_cleared = 0;
CREATE INDEX runs_agent ON runs (agent_id, created_at);

-- Apart from runs, since every row of those is read to find what is open.
CREATE TABLE run_output (
    run_id BLOB NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    stream TEXT NOT NULL,
    start INTEGER NOT NULL,
    bytes BLOB NOT NULL,
    PRIMARY KEY (run_id, stream, start)
) STRICT;
