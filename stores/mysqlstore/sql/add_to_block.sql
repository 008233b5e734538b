INSERT INTO {{blocks}} (first_fence, records, scopes) VALUES {{rows: (?, ?, ?)}}
ON DUPLICATE KEY UPDATE records = records + VALUES(records), scopes = CONCAT(scopes, SUBSTRING(VALUES(scopes), 2))
