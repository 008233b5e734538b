-- Gives tags to records that this transaction has locked, and that have begun anew.
INSERT INTO {{claims}} (k, tags, tags_of) VALUES {{rows: (?, ?, ?)}}
ON DUPLICATE KEY UPDATE tags = VALUES(tags), tags_of = VALUES(tags_of)
