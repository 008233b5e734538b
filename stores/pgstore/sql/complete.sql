-- Ends attempts that hold their key, saves their results, and notifies if a caller waits. Keys in the order of k,
-- each once. A transaction that would not wait for the disk (synchronous_commit = off) waits for this one: its answer is
-- seen by others. Other values are the user's choice, and stay.
WITH ended AS (
	UPDATE {{schema}}.claims c SET
		state = p.state, code = p.code, omitted = p.omitted, ends_at = {{schema}}.clock(),
		keep_replay = p.keep_replay, keep_key = p.keep_key, keep_audit = p.keep_audit,
		-- Looking a little late costs nothing, and an unchanged value leaves the indexes alone.
		sweep_at = CASE WHEN c.sweep_at - ({{schema}}.clock() + greatest(p.keep_key, p.keep_audit)) / 60000000 BETWEEN 0 AND 3
			THEN c.sweep_at ELSE ({{schema}}.clock() + greatest(p.keep_key, p.keep_audit)) / 60000000 END
	FROM {{p: k uuid, owner uuid, fence bigint, state smallint, code integer, omitted boolean,
		keep_replay bigint, keep_key bigint, keep_audit bigint, meta bytea, body bytea}}
	WHERE c.k = p.k AND c.fence = p.fence AND c.owner = p.owner AND c.state = 1
		AND c.ends_at + c.keep_key > {{schema}}.clock()
	RETURNING c.k, c.ends_at, c.ends_at + greatest(c.keep_replay, c.keep_audit) AS keep_until, p.meta, p.body,
		CASE WHEN c.waiters THEN pg_notify({{channel}}, c.k::text)::text END
)
INSERT INTO {{schema}}.results (ended_at, k, keep_until, meta, body)
SELECT ends_at, k, keep_until, meta, body FROM ended
RETURNING k, CASE WHEN current_setting('synchronous_commit') = 'off' THEN set_config('synchronous_commit', 'on', true) END
