-- Leaves a search no plan but to follow an index, whatever the statistics say. $1 is when the server ends it, in
-- milliseconds: one that nothing but a state, a scope or an age selects may read all records.
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
	set_config('enable_mergejoin', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true),
	set_config('jit', 'off', true), set_config('statement_timeout', $1::text, true)
