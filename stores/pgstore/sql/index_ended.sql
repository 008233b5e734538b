-- Of the next $1 records after the first fence $2 that were unfinished, takes the rows in tags of those that have ended or
-- are gone, and notes which have failed. A record that is being changed, as by Reopen, waits for the next time. The
-- transaction has locked progress before.
WITH looked AS MATERIALIZED (
	SELECT ctid AS place, first_fence, k FROM {{schema}}.tags WHERE tag = '=unfinished' AND first_fence > $2
	ORDER BY first_fence FETCH FIRST $1 ROWS WITH TIES
), ended AS MATERIALIZED (
	SELECT l.place, l.first_fence, l.k, c.state FROM looked l JOIN {{schema}}.claims c ON c.k = l.k AND c.first_fence = l.first_fence
	WHERE c.state > 2 FOR SHARE OF c SKIP LOCKED
), over AS MATERIALIZED (
	SELECT place, first_fence, k, state FROM ended
	UNION ALL
	SELECT l.place, l.first_fence, l.k, o.state FROM looked l LEFT JOIN {{schema}}.older o ON o.k = l.k AND o.first_fence = l.first_fence
	WHERE NOT EXISTS (SELECT FROM {{schema}}.claims c WHERE c.k = l.k AND c.first_fence = l.first_fence)
), gone AS (
	DELETE FROM {{schema}}.tags WHERE ctid = ANY (ARRAY(SELECT place FROM over))
), failed AS (
	INSERT INTO {{schema}}.tags (tag, first_fence, k) SELECT '=failed', first_fence, k FROM over WHERE state = 4
	ON CONFLICT DO NOTHING
)
SELECT count(*), coalesce(max(first_fence), 0) FROM looked
