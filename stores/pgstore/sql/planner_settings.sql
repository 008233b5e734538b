-- The only plan that a batch may have is one look into the primary key for each of its rows, whatever the statistics say. And one
-- row that somebody holds is not to keep all the others waiting for longer than $1; NULL: for as long as it takes.
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
	set_config('enable_mergejoin', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('jit', 'off', true),
	set_config('lock_timeout', coalesce($1::text, current_setting('lock_timeout')), true)
