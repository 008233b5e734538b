-- Saves steps, unless there is one of that name.
INSERT IGNORE INTO {{steps}} (k, first_fence, name_digest, n, name, data) VALUES {{rows: (?, ?, ?, ?, ?, ?)}}
