DELETE FROM {{kept}} WHERE k = {{rows: ? AND first_fence = ?}}
