-- Callers of the project 'here' are in directories of their own.

-- None for agents of other projects, and for those made before: theirs is where the server was started then.
ALTER TABLE agents ADD COLUMN directory TEXT;
