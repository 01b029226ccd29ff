-- One table of request keys for whatever a request makes: an operation, a task or a squad.
-- What was made may be gone before its key is; the key then counts for nothing.
CREATE TABLE keys (
    principal TEXT NOT NULL,
    tool TEXT NOT NULL,
    key TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    made_id BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (principal, tool, key)
) STRICT;
INSERT INTO keys
SELECT principal, tool, key, fingerprint, operation_id, created_at FROM request_keys
UNION ALL
SELECT principal, 'start_agent_task', key, fingerprint, task_id, created_at FROM task_keys
UNION ALL
SELECT principal, 'start_squad_members', key, fingerprint, squad_id, created_at FROM squad_keys;
DROP TABLE request_keys;
DROP TABLE task_keys;
DROP TABLE squad_keys;
ALTER TABLE keys RENAME TO request_keys;
CREATE INDEX request_keys_age ON request_keys (created_at);
