-- The last migration, and the oldest version that a program must know to work with it. Schemas of version 1 do not
-- have that column.
SELECT m.version, coalesce((to_jsonb(m) ->> 'oldest')::integer, 0) FROM {{schema}}.migrations m ORDER BY m.version DESC LIMIT 1
