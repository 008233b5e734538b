-- Releases the key of an attempt that holds it and has saved no steps.
UPDATE {{claims}} SET state = 2, ends_at = 0, keep_replay = 0, keep_key = 0, keep_audit = 0,
	sweep_at = ({{late}}) DIV 60000000 + 1
WHERE k = {{rows: ? AND owner = ? AND fence = ?}} AND state = 1 AND steps = 0 AND {{late}} < ends_at + keep_key
