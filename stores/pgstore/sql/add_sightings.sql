-- Adds to the counts of records that people may read. It locks no record, and sightings in the order of their keys.
INSERT INTO {{schema}}.sightings AS s (k, first_fence, kind, count, first_at, last_at, code)
SELECT p.k, p.first_fence, p.kind, p.count, t.now - p.first, t.now - p.last, p.code
FROM (SELECT {{schema}}.clock()) t (now)
	CROSS JOIN {{p: k uuid, first_fence bigint, kind smallint, count bigint, first bigint, last bigint, code integer}}
	CROSS JOIN LATERAL (
		SELECT c.state, c.ends_at, c.keep_key, c.keep_audit FROM {{schema}}.claims c WHERE c.k = p.k AND c.first_fence = p.first_fence
		UNION ALL
		SELECT o.state, o.ends_at, o.keep_key, o.keep_audit FROM {{schema}}.older o WHERE o.k = p.k AND o.first_fence = p.first_fence
	) r
WHERE r.ends_at + CASE WHEN r.state > 2 THEN greatest(r.keep_key, r.keep_audit) ELSE r.keep_key END > t.now
ORDER BY p.k, p.first_fence, p.kind
ON CONFLICT (k, first_fence, kind) DO UPDATE SET
	count = s.count + excluded.count, first_at = least(s.first_at, excluded.first_at),
	last_at = greatest(s.last_at, excluded.last_at),
	code = CASE WHEN excluded.last_at > s.last_at THEN excluded.code ELSE s.code END
