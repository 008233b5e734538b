-- Releases keys for the attempts that hold them. Without steps only the fence counts from then on, for a minute,
-- until the row is swept or claimed: so fences grow although the clock is set back a little, and a late copy of
-- insert.sql does not take the key.
UPDATE {{schema}}.claims c SET state = 2,
	ends_at = CASE WHEN c.steps > 0 THEN {{schema}}.clock() ELSE 0 END,
	keep_replay = CASE WHEN c.steps > 0 THEN c.keep_replay ELSE 0 END,
	keep_key = CASE WHEN c.steps > 0 THEN c.keep_key ELSE 0 END,
	keep_audit = CASE WHEN c.steps > 0 THEN c.keep_audit ELSE 0 END,
	sweep_at = CASE WHEN c.steps > 0 THEN c.sweep_at ELSE {{schema}}.clock() / 60000000 + 1 END
FROM {{p: k uuid, owner uuid, fence bigint}}
WHERE c.k = p.k AND c.fence = p.fence AND c.owner = p.owner AND c.state = 1
	AND c.ends_at + c.keep_key > {{schema}}.clock()
RETURNING c.k, CASE WHEN c.waiters THEN pg_notify({{channel}}, c.k::text)::text END
