-- What an agent last said of itself while it had no task in hand. It counts within its generation, until a task moves.
CREATE TABLE agent_words (
    agent_id BLOB PRIMARY KEY NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    state TEXT NOT NULL,
    text TEXT NOT NULL,
    is_question INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    -- the agent's newest move of a task by then
    sequence INTEGER NOT NULL,
    at INTEGER NOT NULL
) STRICT;
