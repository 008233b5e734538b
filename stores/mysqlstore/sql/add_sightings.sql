INSERT INTO {{sightings}} (k, first_fence, kind, seen, first_at, last_at, code)
VALUES {{rows: (?, ?, ?, ?, {{now}} - ?, {{now}} - ?, ?)}}
ON DUPLICATE KEY UPDATE seen = seen + VALUES(seen), first_at = LEAST(first_at, VALUES(first_at)),
	code = CASE WHEN VALUES(last_at) > last_at THEN VALUES(code) ELSE code END, last_at = GREATEST(last_at, VALUES(last_at))
