DELETE FROM {{older}} WHERE k = {{rows: ? AND first_fence + 0 = ?}}
