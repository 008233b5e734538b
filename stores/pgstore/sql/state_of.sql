-- The state that an attempt has left. FOR UPDATE waits for a transaction that has locked the row, such as one whose
-- COMMIT runs.
SELECT state FROM {{schema}}.claims WHERE k = $1 AND owner = $2 AND fence = $3 FOR UPDATE
