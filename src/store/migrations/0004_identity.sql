-- What agents are given at each start, and what is left of them after a delete.

-- The start an agent's token was made for; none for tokens of people.
ALTER TABLE tokens ADD COLUMN generation INTEGER;

-- What was last written into an agent's workspace; written after it was.
CREATE TABLE provisions (
    agent_id BLOB PRIMARY KEY NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    generation INTEGER NOT NULL,
    -- the address of ours that the agent was told
    url TEXT NOT NULL,
    callback TEXT NOT NULL,
    token_expires_at INTEGER NOT NULL,
    at INTEGER NOT NULL
) STRICT;

-- One row a delete that keeps work, accepted together with it.
CREATE TABLE rescues (
    id BLOB PRIMARY KEY NOT NULL,
    operation_id BLOB NOT NULL UNIQUE REFERENCES operations (id) ON DELETE CASCADE,
    agent_id BLOB NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    agent_name TEXT NOT NULL,
    project TEXT NOT NULL,
    state TEXT NOT NULL,
    -- of the state 'trying'
    since INTEGER,
    -- of the state 'saved'
    file TEXT,
    bytes INTEGER,
    commit_id TEXT,
    -- what was not saved, or why nothing was
    note TEXT,
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX rescues_order ON rescues (created_at, id);
CREATE INDEX rescues_agent ON rescues (agent_id);
