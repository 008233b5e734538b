-- Notes that a record is unfinished.
INSERT INTO retrysafe_tags (tag, record) VALUES (CAST('=unfinished' AS BLOB), ?) ON CONFLICT DO NOTHING
