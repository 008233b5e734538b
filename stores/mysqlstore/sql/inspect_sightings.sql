SELECT first_fence, kind, seen, {{now}} - first_at, {{now}} - last_at, code FROM {{sightings}} FORCE INDEX (PRIMARY)
WHERE k IN ({{rows: ?}}) ORDER BY first_fence, kind
