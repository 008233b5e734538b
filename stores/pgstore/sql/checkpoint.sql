-- Saves steps of attempts that hold their key, unless there is one of that name. Keys in the order of k, each once.
WITH held AS (
	UPDATE {{schema}}.claims c SET steps = c.steps + 1
	FROM {{p: k uuid, owner uuid, fence bigint, name bytea, data bytea}}
	WHERE c.k = p.k AND c.owner = p.owner AND c.fence = p.fence AND c.state = 1 AND c.ends_at + c.keep_key > {{schema}}.clock()
	RETURNING c.k, c.first_fence, c.steps, p.name, p.data
), saved AS (
	INSERT INTO {{schema}}.steps (k, first_fence, n, name, data)
	SELECT k, first_fence, steps, name, data FROM held
	ON CONFLICT (k, first_fence, name) DO NOTHING
)
SELECT k, NULL FROM held
