INSERT INTO {{blocks}} (first_fence, records, scopes) VALUES {{rows: (?, 0, ?)}} ON DUPLICATE KEY UPDATE scopes = VALUES(scopes)
