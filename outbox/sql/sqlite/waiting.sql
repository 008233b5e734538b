SELECT saved_by, count(*), sum(length(header) + length(body))
FROM {{messages}}
WHERE state = 1 AND (?1 = x'' OR topic = ?1)
GROUP BY saved_by
