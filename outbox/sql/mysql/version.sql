SELECT COALESCE(MAX(version), 0) FROM {{migrations}}
