-- Puts the next $1 records into blocks of $2, the last block first if it has fewer, and notes the scopes of each. Records
-- with the same first fence are in the same block. The transaction has locked progress before, and has trimmed the blocks.
WITH p AS MATERIALIZED (
	SELECT least(scoped_below, ready_below) AS first, ready_below AS below FROM {{schema}}.progress
), last AS MATERIALIZED (
	SELECT first_fence, least(records, $2) AS records FROM {{schema}}.blocks ORDER BY first_fence DESC LIMIT 1
), looked AS MATERIALIZED (
	SELECT c.first_fence, c.scope
	FROM (SELECT first_fence, scope FROM {{schema}}.claims UNION ALL SELECT first_fence, scope FROM {{schema}}.older) c
	WHERE c.first_fence >= (SELECT first FROM p) AND c.first_fence < (SELECT below FROM p)
	ORDER BY c.first_fence FETCH FIRST $1 ROWS WITH TIES
), numbered AS MATERIALIZED (
	SELECT first_fence, scope, (rank() OVER (ORDER BY first_fence) - 1 + (SELECT records FROM last)) / $2 AS n FROM looked
), added AS (
	INSERT INTO {{schema}}.blocks AS b (first_fence, records, scopes)
	SELECT CASE n WHEN 0 THEN (SELECT first_fence FROM last) ELSE min(first_fence) END, count(*),
		'\x00'::bytea || string_agg(DISTINCT scope, '\x00') || '\x00'
	FROM numbered GROUP BY n
	ON CONFLICT (first_fence) DO UPDATE SET records = b.records + excluded.records,
		scopes = b.scopes || substring(excluded.scopes FROM 2)
)
UPDATE {{schema}}.progress SET scoped_below = CASE WHEN l.n < $1 THEN p.below ELSE l.last + 1 END
FROM p, (SELECT count(*) AS n, max(first_fence) AS last FROM looked) l
RETURNING l.n
