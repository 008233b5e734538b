INSERT IGNORE INTO {{paused}} (topic, since) VALUES (?1, {{clock}})
