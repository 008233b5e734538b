-- Writes the tags of records that this transaction has made, for searches. What another record of the key has is there.
INSERT IGNORE INTO {{tags}} (k, first_fence, tag)
SELECT c.k, c.first_fence, SUBSTRING_INDEX(SUBSTRING_INDEX(c.tags, x'0A', i.n), x'0A', -1)
FROM {{claims}} c FORCE INDEX (PRIMARY)
JOIN (SELECT 1 AS n UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4) i
	ON i.n <= 1 + LENGTH(c.tags) - LENGTH(REPLACE(c.tags, x'0A', ''))
WHERE c.k IN ({{firsts}}) AND (c.k, c.first_fence) IN ({{rows: (?, ?)}}) AND c.tags_of = c.first_fence
