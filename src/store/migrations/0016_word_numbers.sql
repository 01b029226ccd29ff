-- The number of an agent's word, which grows with each; before, the row's own number of SQLite's was taken for it.
ALTER TABLE agent_words ADD COLUMN number INTEGER NOT NULL DEFAULT 1;
