-- oldest: 1
-- Lists by state, which need not read the records that have succeeded.

-- A sweep gives records that have not succeeded a row in tags: '=unfinished' while they are pending or released, and
-- '=failed'. No tag of a client is without a name. An index on the state would be written twice for each key, and its
-- completion would no longer leave the other indexes alone.
--
-- progress says how far sweeps have come, in one row.
CREATE TABLE {{schema}}.progress (
	indexed_below bigint NOT NULL, -- records with a lower first_fence have their rows in tags
	ready_below   bigint NOT NULL, -- every claim with a lower first_fence is committed, or will never be
	noted_at      bigint NOT NULL, -- the time of the clock at which these transactions wrote claims
	writers       text[] NOT NULL, -- virtual transactions
	again_from    bigint NOT NULL  -- where to go on looking at records again
);
INSERT INTO {{schema}}.progress VALUES (0, 0, 0, '{}', 0);

-- tags_of_record returns each of the tags of a record, and the one that a sweep may have given it. A sweep itself deletes
-- what it has given unfinished records.
CREATE FUNCTION {{schema}}.tags_of_record(tags bytea, state smallint) RETURNS SETOF bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE
	BEGIN ATOMIC
		SELECT line FROM {{schema}}.tag_lines(tags) AS line UNION ALL SELECT '=failed'::bytea WHERE state = 4;
	END;

CREATE OR REPLACE FUNCTION {{schema}}.note_tags() RETURNS trigger
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
BEGIN
	IF TG_OP = 'UPDATE' THEN
		DELETE FROM {{schema}}.tags t WHERE t.k = OLD.k AND t.first_fence = OLD.first_fence
			AND t.tag = ANY (ARRAY(SELECT {{schema}}.tags_of_record(OLD.tags, OLD.state)));
		DELETE FROM {{schema}}.sightings s WHERE s.k = OLD.k AND s.first_fence = OLD.first_fence;
	END IF;
	INSERT INTO {{schema}}.tags (tag, first_fence, k) SELECT line, NEW.first_fence, NEW.k FROM {{schema}}.tag_lines(NEW.tags) AS line;
	RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION {{schema}}.forget() RETURNS trigger
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off AS $$
BEGIN
	DELETE FROM {{schema}}.tags t USING gone g CROSS JOIN LATERAL {{schema}}.tags_of_record(g.tags, g.state) AS line
		WHERE (g.tags IS NOT NULL OR g.state = 4) AND t.tag = line AND t.first_fence = g.first_fence AND t.k = g.k
			AND NOT EXISTS (SELECT FROM {{schema}}.older o WHERE o.k = g.k AND o.first_fence = g.first_fence);
	WITH ended AS MATERIALIZED (
		SELECT s.k, s.first_fence, s.kind FROM gone g JOIN {{schema}}.sightings s ON s.k = g.k AND s.first_fence <= g.first_fence
		WHERE NOT EXISTS (SELECT FROM {{schema}}.older o WHERE o.k = s.k AND o.first_fence = s.first_fence)
		ORDER BY s.k, s.first_fence, s.kind FOR UPDATE OF s
	)
	DELETE FROM {{schema}}.sightings s USING ended e WHERE s.k = e.k AND s.first_fence = e.first_fence AND s.kind = e.kind;
	RETURN NULL;
END $$;
