INSERT INTO {{progress}} (name, value) VALUES {{rows: (?, ?)}} ON DUPLICATE KEY UPDATE value = VALUES(value)
