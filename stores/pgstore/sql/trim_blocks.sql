-- If the clock was set back, drops the blocks of records that are to be looked at again. The transaction has locked
-- progress before.
WITH p AS MATERIALIZED (
	SELECT least(scoped_below, ready_below) AS first FROM {{schema}}.progress
), gone AS (
	DELETE FROM {{schema}}.blocks WHERE first_fence > 0 AND first_fence >= (SELECT first FROM p)
)
DELETE FROM {{schema}}.scopes WHERE block > 0 AND block >= (SELECT first FROM p)
