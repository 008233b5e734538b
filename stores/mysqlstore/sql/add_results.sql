INSERT INTO {{results}} (ended_at, k, keep_until, meta, body) VALUES {{rows: (?, ?, ?, ?, ?)}}
