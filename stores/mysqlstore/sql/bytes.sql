SELECT COALESCE(SUM(data_length + index_length), 0) FROM information_schema.tables
WHERE table_schema = {{database_text}} AND table_name IN ({{tables_text}})
