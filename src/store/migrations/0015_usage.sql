-- What agents have used. A counter keeps the highest figures it was told, so that a figure told again adds nothing.
-- Its source is the agent's own record ('agent'), a conversation of an engine, or one run.
CREATE TABLE usage_counters (
    agent_id BLOB NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    source TEXT NOT NULL,
    generation INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    -- none while no cost is known
    cost_micros INTEGER,
    PRIMARY KEY (agent_id, source)
) STRICT;

-- What each day added, counted from 1970 in UTC. It stays when its agent is deleted.
CREATE TABLE usage_days (
    agent_id BLOB NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    day INTEGER NOT NULL,
    spender TEXT NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cost_micros INTEGER,
    unknown_runs INTEGER NOT NULL,
    PRIMARY KEY (agent_id, day, spender)
) STRICT;
CREATE INDEX usage_days_day ON usage_days (day);
