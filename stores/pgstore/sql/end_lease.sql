-- Ends the lease of a key's claim, whoever owns it, and waits for no transaction that holds the record.
WITH held AS MATERIALIZED (
	SELECT c.k FROM {{schema}}.claims c
	WHERE c.k = $1 AND c.fence = $2 AND c.state = 1 AND c.ends_at + c.keep_key > {{schema}}.clock()
	FOR UPDATE NOWAIT
)
UPDATE {{schema}}.claims c SET ends_at = least(c.ends_at, {{schema}}.clock()) FROM held h WHERE c.k = h.k
