-- Extends the lease of an attempt that holds its key.
UPDATE {{claims}} SET ends_at = {{late}} + {{rows: ? WHERE k = ? AND owner = ? AND fence = ?}}
	AND state = 1 AND {{late}} < ends_at + keep_key
