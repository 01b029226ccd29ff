-- How tasks reach their agents and what came of them, beside their lines in the journal.

CREATE TABLE task_deliveries (
    task_id BLOB PRIMARY KEY NOT NULL REFERENCES journal (id) ON DELETE CASCADE,
    origin TEXT NOT NULL,
    is_urgent INTEGER NOT NULL,
    -- unsent, sending or taken
    step TEXT NOT NULL,
    channel TEXT,
    at INTEGER,
    base_message INTEGER,
    is_answered INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    timeout_micros INTEGER,
    working_since INTEGER,
    last_sign INTEGER,
    silent_since INTEGER,
    parked_until INTEGER,
    -- written by callers, never by the one who delivers
    cancel_at INTEGER,
    cancel_may_stop INTEGER NOT NULL,
    claim TEXT,
    claim_text TEXT,
    claim_at INTEGER,
    reached TEXT NOT NULL,
    head_before TEXT,
    verified INTEGER NOT NULL,
    verified_commit TEXT,
    verified_is_new INTEGER,
    verified_is_pushed INTEGER,
    verified_is_clean INTEGER
) STRICT;

-- Tasks from before this table: each agent had its spec only.
INSERT INTO task_deliveries (task_id, origin, is_urgent, step, is_answered, attempt, cancel_may_stop, reached, verified)
SELECT id, 'spec', 0, 'unsent', 0, 1, 0, 'none', 0 FROM journal WHERE kind = 'task';

-- Every state a task was in. The sequence tells which of two readings of an agent's tasks is newer.
CREATE TABLE task_moves (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    task_id BLOB NOT NULL REFERENCES journal (id) ON DELETE CASCADE,
    agent_id BLOB NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    state TEXT NOT NULL,
    reason TEXT NOT NULL,
    generation INTEGER NOT NULL,
    at INTEGER NOT NULL
) STRICT;
CREATE INDEX task_moves_task ON task_moves (task_id, sequence);
CREATE INDEX task_moves_agent ON task_moves (agent_id, sequence);

-- Request keys of tasks; those of operations are in request_keys.
CREATE TABLE task_keys (
    principal TEXT NOT NULL,
    key TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    task_id BLOB NOT NULL REFERENCES journal (id) ON DELETE CASCADE,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (principal, key)
) STRICT;
CREATE INDEX task_keys_task ON task_keys (task_id);
CREATE INDEX task_keys_age ON task_keys (created_at);

-- The newest part of each agent's conversation, for when the agent cannot be asked.
CREATE TABLE agent_logs (
    agent_id BLOB NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    conversation INTEGER NOT NULL,
    number INTEGER NOT NULL,
    kind TEXT NOT NULL,
    content TEXT NOT NULL,
    time INTEGER NOT NULL,
    PRIMARY KEY (agent_id, conversation, number)
) STRICT;
CREATE INDEX agent_logs_order ON agent_logs (agent_id, time, conversation, number);
