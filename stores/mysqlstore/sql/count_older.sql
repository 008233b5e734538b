UPDATE {{older}} SET steps = steps + 1 WHERE k = {{rows: ? AND first_fence + 0 = ?}}
