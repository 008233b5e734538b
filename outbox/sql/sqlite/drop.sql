DELETE FROM {{messages}}
WHERE state = 3 AND key IN (SELECT CAST(value AS BLOB) FROM json_each(?1))
