WITH m AS MATERIALIZED (SELECT t.now, (t.now / 60000000)::integer AS minute FROM (SELECT {{schema}}.clock()) t (now)),
gone AS (
	DELETE FROM {{schema}}.older o WHERE (o.k, o.first_fence) IN (
		SELECT k, first_fence FROM {{schema}}.older
		WHERE sweep_at <= (SELECT minute FROM m) AND ends_at + keep_audit <= (SELECT now FROM m)
		ORDER BY sweep_at LIMIT $1 FOR UPDATE SKIP LOCKED)
	RETURNING 1
)
SELECT count(*) FROM gone
