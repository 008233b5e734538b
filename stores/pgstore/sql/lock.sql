-- Locks the record of a key.
SELECT FROM {{schema}}.claims WHERE k = $1 FOR UPDATE
