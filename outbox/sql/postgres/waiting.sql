SELECT saved_by, count(*), sum(octet_length(header) + octet_length(body))
FROM {{messages}}
WHERE state = 1 AND ($1::bytea = '' OR topic = $1)
GROUP BY saved_by
