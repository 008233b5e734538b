SELECT id, key, topic, aggregate, header, x'', tries, {{clock}} - saved_at, digest, state, owner <> x'', due_at - {{clock}}, error
FROM {{messages}}
WHERE key IN (SELECT CAST(value AS BLOB) FROM json_each(?1))
ORDER BY id
