-- Gives the next $1 records that have not succeeded their rows in tags, and takes those of others; $2: of the records that
-- have been looked at before, so that what was missed is found. The transaction has locked progress before.
WITH p AS MATERIALIZED (
	SELECT CASE WHEN $2::boolean THEN again_from ELSE indexed_below END AS first,
		CASE WHEN $2 THEN indexed_below ELSE ready_below END AS below
	FROM {{schema}}.progress
), looked AS MATERIALIZED (
	SELECT c.k, c.first_fence, c.state
	FROM (SELECT k, first_fence, state FROM {{schema}}.claims UNION ALL SELECT k, first_fence, state FROM {{schema}}.older) c
	WHERE c.first_fence >= (SELECT first FROM p) AND c.first_fence < (SELECT below FROM p)
	ORDER BY c.first_fence FETCH FIRST $1 ROWS WITH TIES
), done AS MATERIALIZED (
	SELECT p.first, CASE WHEN l.n < $1 THEN greatest(p.first, p.below) ELSE l.last + 1 END AS below, l.n
	FROM p, (SELECT count(*) AS n, max(first_fence) AS last FROM looked) l
), added AS (
	INSERT INTO {{schema}}.tags (tag, first_fence, k)
	SELECT CASE state WHEN 4 THEN '=failed'::bytea ELSE '=unfinished' END, first_fence, k FROM looked WHERE state <> 3
	ON CONFLICT DO NOTHING
), gone AS (
	DELETE FROM {{schema}}.tags t
	WHERE t.tag = '=failed' AND t.first_fence >= (SELECT first FROM done) AND t.first_fence < (SELECT below FROM done)
		AND NOT EXISTS (SELECT FROM {{schema}}.claims c WHERE c.k = t.k AND c.first_fence = t.first_fence AND c.state = 4)
		AND NOT EXISTS (SELECT FROM {{schema}}.older o WHERE o.k = t.k AND o.first_fence = t.first_fence AND o.state = 4)
)
UPDATE {{schema}}.progress SET
	indexed_below = CASE WHEN $2 THEN indexed_below ELSE d.below END,
	again_from = CASE WHEN NOT $2 THEN again_from WHEN d.n < $1 THEN 0 ELSE d.below END
FROM done d
RETURNING d.n
