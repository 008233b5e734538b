-- Of the next $1 blocks, drops the scopes that no record has any more, and adds those that were missed; drops the blocks
-- without records, so that the ones before them reach as far as they did. $2: goes on where it was left, and not from the
-- first block. Returns how many blocks were dropped. The transaction has locked progress before.
WITH p AS MATERIALIZED (
	SELECT CASE WHEN $2::boolean THEN review_from ELSE 0 END AS first, least(scoped_below, ready_below) AS below
	FROM {{schema}}.progress
), b AS MATERIALIZED (
	SELECT b.first_fence AS block,
		coalesce((SELECT min(n.first_fence) FROM {{schema}}.blocks n WHERE n.first_fence > b.first_fence), (SELECT below FROM p)) AS below
	FROM {{schema}}.blocks b WHERE b.first_fence >= (SELECT first FROM p)
	ORDER BY b.first_fence LIMIT $1
), held AS MATERIALIZED (
	SELECT DISTINCT b.block, c.scope FROM b CROSS JOIN LATERAL (
		SELECT scope FROM {{schema}}.claims WHERE first_fence >= b.block AND first_fence < b.below
		UNION ALL SELECT scope FROM {{schema}}.older WHERE first_fence >= b.block AND first_fence < b.below
	) c
), noted AS MATERIALIZED (
	SELECT s.ctid AS place, s.block, s.scope FROM b JOIN {{schema}}.scopes s ON s.block = b.block
), gone AS (
	DELETE FROM {{schema}}.scopes WHERE ctid = ANY (ARRAY(
		SELECT (array_agg(x.place))[1] FROM (
			SELECT place, block, scope FROM noted UNION ALL SELECT NULL, block, scope FROM held
		) x GROUP BY x.block, x.scope HAVING count(*) = count(x.place)))
), added AS (
	INSERT INTO {{schema}}.scopes (block, scope) SELECT block, scope FROM held EXCEPT SELECT block, scope FROM noted
	ON CONFLICT DO NOTHING
), dropped AS (
	DELETE FROM {{schema}}.blocks WHERE first_fence > 0 AND first_fence = ANY (ARRAY(SELECT block FROM b EXCEPT SELECT block FROM held))
	RETURNING 1
)
UPDATE {{schema}}.progress SET
	review_from = CASE WHEN NOT $2 THEN review_from WHEN l.n < $1 THEN 0 ELSE l.last + 1 END
FROM (SELECT count(*) AS n, max(block) AS last FROM b) l
RETURNING (SELECT count(*) FROM dropped)
