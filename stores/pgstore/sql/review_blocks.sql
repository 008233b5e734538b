-- Of the next $1 blocks, drops the scopes that no record has any more, and adds those that were missed; drops the blocks
-- without records, so that the ones before them reach as far as they did. $2: goes on where it was left, and not from the
-- first block. Returns how many blocks were dropped. The transaction has locked progress before.
WITH p AS MATERIALIZED (
	SELECT CASE WHEN $2::boolean THEN review_from ELSE 0 END AS first, least(scoped_below, ready_below) AS below
	FROM {{schema}}.progress
), looked AS MATERIALIZED (
	SELECT b.ctid AS place, b.first_fence, b.scopes,
		coalesce((SELECT min(n.first_fence) FROM {{schema}}.blocks n WHERE n.first_fence > b.first_fence), (SELECT below FROM p)) AS below
	FROM {{schema}}.blocks b WHERE b.first_fence >= (SELECT first FROM p)
	ORDER BY b.first_fence LIMIT $1
), held AS MATERIALIZED (
	SELECT b.place, b.first_fence, b.scopes AS before, '\x00'::bytea || coalesce((
		SELECT string_agg(DISTINCT c.scope, '\x00') || '\x00' FROM (
			SELECT scope FROM {{schema}}.claims WHERE first_fence >= b.first_fence AND first_fence < b.below
			UNION ALL SELECT scope FROM {{schema}}.older WHERE first_fence >= b.first_fence AND first_fence < b.below
		) c), '') AS scopes
	FROM looked b
), changed AS (
	UPDATE {{schema}}.blocks b SET scopes = h.scopes FROM held h
	WHERE b.ctid = h.place AND h.scopes <> h.before AND (h.first_fence = 0 OR h.scopes <> '\x00')
), dropped AS (
	DELETE FROM {{schema}}.blocks b USING held h WHERE b.ctid = h.place AND h.first_fence > 0 AND h.scopes = '\x00'
	RETURNING 1
)
UPDATE {{schema}}.progress SET
	review_from = CASE WHEN NOT $2 THEN review_from WHEN l.n < $1 THEN 0 ELSE l.last + 1 END
FROM (SELECT count(*) AS n, max(first_fence) AS last FROM looked) l
RETURNING (SELECT count(*) FROM dropped)
