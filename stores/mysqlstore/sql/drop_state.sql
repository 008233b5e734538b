DELETE FROM {{tags}} WHERE k = {{rows: ? AND first_fence = ? AND tag = ?}}
