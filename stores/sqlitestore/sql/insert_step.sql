-- The first result of a step stays. Drivers may bind an empty blob as NULL.
INSERT INTO retrysafe_steps (record, position, name, data)
SELECT ?1, ?2, coalesce(?3, x''), ?4
WHERE NOT EXISTS (SELECT 1 FROM retrysafe_steps WHERE record = ?1 AND name = coalesce(?3, x''))
