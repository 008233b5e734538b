SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c
WHERE c.relnamespace = {{schema_text}}::regnamespace AND c.relkind = 'r'
