-- Why a call was refused, in words: a code alone does not tell an expired token from a stopped agent.
ALTER TABLE audit ADD COLUMN reason TEXT;
