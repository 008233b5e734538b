-- Leaves a batch no plan but one search in the primary key for each of its rows, whatever the statistics say. $1 is
-- for how long a statement may wait for a locked row, in milliseconds, because all operations of the batch wait with
-- it; NULL: the role's setting.
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
	set_config('enable_mergejoin', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('jit', 'off', true),
	set_config('lock_timeout', coalesce($1::text, current_setting('lock_timeout')), true)
