SELECT id, key, topic, aggregate, header, CASE WHEN ?3 THEN body ELSE x'' END, tries, {{clock}} - saved_at, {{clock}} - due_at, error
FROM {{messages}}
WHERE state = 3 AND id > ?1
ORDER BY id
LIMIT ?2
