-- Roles that have the grants of a service, and not those of a Store, and can read the tables too, or columns of them:
-- by a grant, by a role that they are in, or as superusers.
SELECT a.grantee::regrole::text
FROM pg_proc p CROSS JOIN LATERAL aclexplode(p.proacl) a
WHERE p.oid = '{{schema}}.complete(text, bytea, integer, text, text[], interval)'::regprocedure
	AND a.grantee <> p.proowner AND a.grantee <> 0
	AND NOT EXISTS (SELECT FROM pg_proc i CROSS JOIN LATERAL aclexplode(i.proacl) b
		WHERE i.pronamespace = p.pronamespace AND i.proname = 'end_attempt' AND b.grantee = a.grantee)
	AND EXISTS (SELECT FROM pg_class t WHERE t.relnamespace = p.pronamespace AND t.relkind IN ('r', 'p', 'v')
		AND t.relname ~ '^(claims|older|steps|records|tags|blocks|sightings|results(_[0-9]+)?)$' AND has_any_column_privilege(a.grantee, t.oid, 'SELECT'))
ORDER BY 1
