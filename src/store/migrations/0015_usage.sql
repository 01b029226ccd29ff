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
    -- runs that reported no usage
    unknown_runs INTEGER NOT NULL,
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

-- Totals of task runs without a runner were kept as metadata of ours. When they were used is unknown.
INSERT INTO usage_days (agent_id, day, spender, input_tokens, output_tokens, cost_micros, unknown_runs)
SELECT a.id, a.created_at / 86400000000, 'agent', m.value ->> 'input_tokens', m.value ->> 'output_tokens',
    CASE WHEN m.value ->> 'cost_usd' BETWEEN 0 AND 10000 THEN CAST(round((m.value ->> 'cost_usd') * 1000000) AS INTEGER) END,
    0
FROM metadata m JOIN agents a ON a.id = m.agent_id
WHERE m.key = 'fleet_mcp_usage' AND CASE WHEN json_valid(m.value) THEN
    json_type(m.value, '$.input_tokens') = 'integer' AND m.value ->> 'input_tokens' BETWEEN 0 AND 10000000000
    AND json_type(m.value, '$.output_tokens') = 'integer' AND m.value ->> 'output_tokens' BETWEEN 0 AND 10000000000
    ELSE 0 END;
DELETE FROM metadata WHERE key = 'fleet_mcp_usage';
