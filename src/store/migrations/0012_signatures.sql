-- People were known by the name of their token, which several tokens may share; now by the token's id.
-- A name that one token has becomes that token's. What several may have made stays under the name: operators see it,
-- and none of them takes it for its own.
CREATE TEMP TABLE signatures AS
SELECT t.name AS name,
    'token:' || lower(substr(hex(t.id), 1, 8) || '-' || substr(hex(t.id), 9, 4) || '-' || substr(hex(t.id), 13, 4) || '-' || substr(hex(t.id), 17, 4) || '-' || substr(hex(t.id), 21)) AS signature
FROM tokens t
WHERE t.agent_id IS NULL AND (SELECT count(*) FROM tokens o WHERE o.name = t.name AND o.agent_id IS NULL) = 1;

UPDATE squads SET principal = (SELECT signature FROM signatures WHERE name = principal)
WHERE principal IN (SELECT name FROM signatures);

UPDATE chats SET principal = (SELECT signature FROM signatures WHERE name = principal)
WHERE principal IN (SELECT name FROM signatures);

UPDATE request_keys SET principal = (SELECT signature FROM signatures WHERE name = principal)
WHERE principal IN (SELECT name FROM signatures);

DROP TABLE signatures;
