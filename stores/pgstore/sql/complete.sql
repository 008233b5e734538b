-- Ends attempts that hold their key, saves their results, and tells those who wait. Keys in the order of k, each once.
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
	RETURNING c.k, c.first_fence, c.ends_at, c.keep_replay, c.keep_audit, c.steps, c.waiters, p.meta, p.body
), steps AS (
	DELETE FROM {{schema}}.steps s USING ended e
	WHERE e.steps > 0 AND s.k = e.k AND s.first_fence = e.first_fence
	RETURNING s.k, s.n, s.name, s.data
), saved AS (
	INSERT INTO {{schema}}.results (ended_at, k, keep_until, meta, body, step_names, step_data)
	SELECT e.ends_at, e.k, e.ends_at + greatest(e.keep_replay, e.keep_audit), e.meta, e.body,
		CASE WHEN e.steps > 0 THEN (SELECT array_agg(s.name ORDER BY s.n) FROM steps s WHERE s.k = e.k) END,
		CASE WHEN e.steps > 0 THEN (SELECT array_agg(s.data ORDER BY s.n) FROM steps s WHERE s.k = e.k) END
	FROM ended e
)
SELECT k, CASE WHEN waiters THEN pg_notify({{channel}}, k::text)::text END FROM ended
