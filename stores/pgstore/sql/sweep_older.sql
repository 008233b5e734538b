WITH m AS MATERIALIZED (SELECT t.now, (t.now / 60000000)::integer AS minute FROM (SELECT {{schema}}.clock()) t (now)),
gone AS (
	DELETE FROM {{schema}}.older o WHERE (o.k, o.first_fence) IN (
		SELECT k, first_fence FROM {{schema}}.older
		WHERE sweep_at <= (SELECT minute FROM m) AND ends_at + keep_audit <= (SELECT now FROM m)
		ORDER BY sweep_at LIMIT $1 FOR UPDATE SKIP LOCKED)
	RETURNING o.k, o.first_fence, o.steps
), steps AS (
	DELETE FROM {{schema}}.steps s USING gone g WHERE g.steps > 0 AND s.k = g.k AND s.first_fence = g.first_fence
)
SELECT count(*) FROM gone
