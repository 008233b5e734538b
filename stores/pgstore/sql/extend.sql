-- Sets when the leases of attempts that hold their key end. If that is now, a caller that waits is notified.
UPDATE {{schema}}.claims c SET ends_at = {{schema}}.clock() + p.lease
FROM {{p: k uuid, owner uuid, fence bigint, lease bigint}}
WHERE c.k = p.k AND c.fence = p.fence AND c.owner = p.owner AND c.state = 1
	AND c.ends_at + c.keep_key > {{schema}}.clock()
RETURNING c.k, CASE WHEN c.waiters AND p.lease = 0 THEN pg_notify({{channel}}, c.k::text)::text END
