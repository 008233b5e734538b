-- What has become of an attempt. It waits for a transaction that holds the row, as one does that is still being committed.
SELECT state FROM {{schema}}.claims WHERE k = $1 AND owner = $2 AND fence = $3 FOR UPDATE
