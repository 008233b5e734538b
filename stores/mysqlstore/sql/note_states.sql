INSERT IGNORE INTO {{tags}} (k, first_fence, tag) VALUES {{rows: (?, ?, ?)}}
