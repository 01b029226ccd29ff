-- Squads: who asked for what, how far each member has come. What members wrote is in run_output.
CREATE TABLE squads (
    id BLOB PRIMARY KEY NOT NULL,
    principal TEXT NOT NULL,
    state_mode TEXT NOT NULL,
    execution_mode TEXT NOT NULL,
    delay_ms INTEGER NOT NULL,
    timeout_ms INTEGER NOT NULL,
    -- JSON of the caller's
    metadata TEXT,
    created_at INTEGER NOT NULL,
    ended_at INTEGER
) STRICT;
CREATE INDEX squads_open ON squads (created_at) WHERE ended_at IS NULL;
CREATE INDEX squads_age ON squads (created_at);

CREATE TABLE squad_members (
    -- also the id of its task in the journal, where it has got as far as an agent
    id BLOB PRIMARY KEY NOT NULL,
    squad_id BLOB NOT NULL REFERENCES squads (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    role TEXT NOT NULL,
    task TEXT NOT NULL,
    prompt TEXT NOT NULL,
    wanted_cwd TEXT,
    cwd TEXT,
    agent_id BLOB REFERENCES agents (id) ON DELETE SET NULL,
    -- none in stateless squads
    is_follow_up INTEGER,
    chat_id TEXT,
    -- the word of the engine, once that is chosen
    engine TEXT,
    run_id BLOB,
    status TEXT NOT NULL,
    note TEXT,
    began_at INTEGER,
    ended_at INTEGER,
    UNIQUE (squad_id, position)
) STRICT;
CREATE INDEX squad_members_agent ON squad_members (agent_id) WHERE ended_at IS NULL;
CREATE INDEX squad_members_chat ON squad_members (chat_id) WHERE ended_at IS NULL;

-- Conversations that later members can continue.
CREATE TABLE chats (
    id TEXT PRIMARY KEY NOT NULL,
    principal TEXT NOT NULL,
    agent_id BLOB NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    engine TEXT NOT NULL,
    used_at INTEGER NOT NULL
) STRICT;

CREATE TABLE squad_keys (
    principal TEXT NOT NULL,
    key TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    squad_id BLOB NOT NULL REFERENCES squads (id) ON DELETE CASCADE,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (principal, key)
) STRICT;
CREATE INDEX squad_keys_age ON squad_keys (created_at);
