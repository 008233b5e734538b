DELETE m
FROM (
	SELECT id FROM {{messages}} FORCE INDEX ({{index due}})
	WHERE state = 2 AND ordered IN (0, 1) AND due_at <= {{clock}} - ?1
	LIMIT ?2
	FOR UPDATE SKIP LOCKED) AS d
STRAIGHT_JOIN {{messages}} AS m FORCE INDEX (PRIMARY) ON m.id = d.id
