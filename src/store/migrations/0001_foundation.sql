-- What the fleet cannot ask Coder for: who exists, what was intended, what happened.
-- Times are microseconds since 1970 UTC, ids 16 bytes, words those of the domain's enums.

-- One row: the highest revision given out. Rows may go away, numbers are never used again.
CREATE TABLE fleet_revision (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    value INTEGER NOT NULL
) STRICT;
INSERT INTO fleet_revision (only, value) VALUES (1, 0);

CREATE TABLE agents (
    id BLOB PRIMARY KEY NOT NULL,
    name TEXT NOT NULL,
    name_key TEXT NOT NULL,
    workspace_id BLOB UNIQUE,
    project TEXT NOT NULL,
    role TEXT NOT NULL,
    spec TEXT NOT NULL,
    pull_request_url TEXT,
    created_by TEXT,
    created_at INTEGER NOT NULL,
    deleted_at INTEGER
) STRICT;
CREATE UNIQUE INDEX agents_live_name ON agents (name_key) WHERE deleted_at IS NULL;
CREATE INDEX agents_name ON agents (name_key);
CREATE INDEX agents_deleted ON agents (deleted_at, id) WHERE deleted_at IS NOT NULL;

-- Apart from agents because every poll writes here, and a row there carries its whole spec.
CREATE TABLE sightings (
    agent_id BLOB PRIMARY KEY NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    status TEXT NOT NULL,
    previous_status TEXT,
    reason TEXT NOT NULL,
    attention TEXT NOT NULL,
    generation INTEGER NOT NULL,
    observed_at INTEGER,
    updated_at INTEGER NOT NULL,
    revision INTEGER NOT NULL UNIQUE
) STRICT;

CREATE TABLE operations (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    id BLOB NOT NULL UNIQUE,
    agent_id BLOB NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    state TEXT NOT NULL,
    step TEXT NOT NULL,
    -- of the step 'sending'
    sent_at INTEGER,
    base_build INTEGER,
    -- of the step 'following'
    build INTEGER,
    build_ended_at INTEGER,
    principal TEXT NOT NULL,
    failure_code TEXT,
    failure_message TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    ended_at INTEGER
) STRICT;
CREATE INDEX operations_open ON operations (sequence) WHERE ended_at IS NULL;
CREATE INDEX operations_agent ON operations (agent_id, sequence);

CREATE TABLE request_keys (
    principal TEXT NOT NULL,
    tool TEXT NOT NULL,
    key TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    operation_id BLOB NOT NULL REFERENCES operations (id) ON DELETE CASCADE,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (principal, tool, key)
) STRICT;
CREATE INDEX request_keys_operation ON request_keys (operation_id);
CREATE INDEX request_keys_age ON request_keys (created_at);

CREATE TABLE journal (
    id BLOB PRIMARY KEY NOT NULL,
    agent_id BLOB NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    message TEXT NOT NULL,
    state TEXT NOT NULL,
    outcome TEXT,
    source TEXT NOT NULL,
    task_id BLOB,
    uri TEXT,
    needs_user_attention INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    -- when a task reached its end, none before; a report is over as it is made
    ended_at INTEGER
) STRICT;
CREATE INDEX journal_order ON journal (agent_id, created_at, id);
CREATE INDEX journal_kind_order ON journal (agent_id, kind, created_at, id);
CREATE INDEX journal_open ON journal (agent_id, created_at, id) WHERE ended_at IS NULL;
CREATE INDEX journal_ended_tasks ON journal (agent_id, ended_at, created_at, id)
WHERE kind = 'task' AND ended_at IS NOT NULL;

-- How many entries each day of a journal has, kept in the transaction that adds them: a page is found by
-- summing days instead of walking a million entries. Days are counted from 1970, in UTC.
CREATE TABLE journal_days (
    agent_id BLOB NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    day INTEGER NOT NULL,
    entries INTEGER NOT NULL,
    PRIMARY KEY (agent_id, kind, day)
) STRICT;

CREATE TABLE metadata (
    agent_id BLOB NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    changed_at INTEGER NOT NULL,
    PRIMARY KEY (agent_id, key)
) STRICT;

CREATE TABLE user_config (
    key TEXT PRIMARY KEY NOT NULL,
    value TEXT NOT NULL,
    set_by TEXT NOT NULL,
    set_at INTEGER NOT NULL
) STRICT;

CREATE TABLE tokens (
    id BLOB PRIMARY KEY NOT NULL,
    hash BLOB NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    role TEXT,
    agent_id BLOB REFERENCES agents (id) ON DELETE CASCADE,
    -- a JSON list of names; none allows every project
    projects TEXT,
    parent BLOB REFERENCES tokens (id) ON DELETE CASCADE,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER
) STRICT;
CREATE INDEX tokens_agent ON tokens (agent_id);
CREATE INDEX tokens_parent ON tokens (parent);

-- No foreign keys: what was done stays on record when tokens and operations are gone.
CREATE TABLE audit (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    principal_kind TEXT NOT NULL,
    principal TEXT NOT NULL,
    token_id BLOB,
    surface TEXT NOT NULL,
    action TEXT NOT NULL,
    target TEXT,
    outcome TEXT NOT NULL,
    code TEXT,
    operation_id BLOB
) STRICT;
