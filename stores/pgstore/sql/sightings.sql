-- What was seen of the records of a key.
SELECT s.first_fence, s.kind, s.count, t.now - s.first_at, t.now - s.last_at, s.code
FROM (SELECT {{schema}}.clock()) t (now) CROSS JOIN {{schema}}.sightings s
WHERE s.k = $1
ORDER BY s.first_fence, s.kind
