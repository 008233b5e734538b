-- Sets the minute in which records that this transaction has locked are looked at next.
INSERT INTO {{claims}} (k, sweep_at) VALUES {{rows: (?, ?)}} ON DUPLICATE KEY UPDATE sweep_at = VALUES(sweep_at)
