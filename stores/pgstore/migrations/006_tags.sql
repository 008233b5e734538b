-- oldest: 1
-- Tags of keys, by which people find them, and how often keys were seen again.

-- A change of claims waits for every transaction that has read it, such as those that have called hold, and claims would
-- wait behind it. So it waits for half a second at a time. The column has no default, so that no row is written.
DO $$ DECLARE
	lock_wait CONSTANT text := current_setting('lock_timeout');
BEGIN
	FOR try IN REVERSE 200 .. 0 LOOP
		BEGIN
			PERFORM set_config('lock_timeout', '500ms', true);
			LOCK TABLE {{schema}}.claims, {{schema}}.older IN ACCESS EXCLUSIVE MODE;
			EXIT;
		EXCEPTION WHEN lock_not_available THEN
			IF try = 0 THEN
				RAISE EXCEPTION 'retrysafe: the table of claims cannot be changed while a transaction that has read it goes on'
					USING ERRCODE = 'lock_not_available', HINT = 'Nothing was changed. End long transactions (pg_stat_activity), and migrate again.';
			END IF;
			PERFORM pg_sleep(0.5);
		END;
	END LOOP;
	PERFORM set_config('lock_timeout', lock_wait, true);
END $$;

-- Lines of name=value, sorted by name; NULL: none. They are those of the first claim.
ALTER TABLE {{schema}}.claims ADD COLUMN tags bytea;
ALTER TABLE {{schema}}.older ADD COLUMN tags bytea;

-- The client's part of a key, whatever its scope is. Migrate makes the index on a large table later, outside of this
-- transaction and without locking claims out, under the lock "indexes".
DO $$ BEGIN
	IF pg_relation_size('{{schema}}.claims') + pg_relation_size('{{schema}}.older') < 64 << 20 THEN
		CREATE INDEX claims_id ON {{schema}}.claims USING hash (id);
		CREATE INDEX older_id ON {{schema}}.older USING hash (id);
	END IF;
END $$;
INSERT INTO {{schema}}.locks VALUES ('indexes', gen_random_uuid(), 0);

-- Where the records with a tag are, of claims and of older. Triggers keep it as the server keeps an index, whatever
-- statement or older program changes the records. Records without tags cost nothing here.
CREATE TABLE {{schema}}.tags (
	tag         bytea  NOT NULL, -- name=value
	first_fence bigint NOT NULL,
	k           uuid   NOT NULL,
	CONSTRAINT tags_pkey PRIMARY KEY (tag, first_fence, k)
);

-- How often records were seen again, of claims and of older.
CREATE TABLE {{schema}}.sightings (
	k           uuid     NOT NULL,
	first_fence bigint   NOT NULL,
	kind        smallint NOT NULL, -- 1 replayed, 2 waiting, 3 in flight, 4 mismatch, 5 refused
	count       bigint   NOT NULL,
	first_at    bigint   NOT NULL,
	last_at     bigint   NOT NULL,
	code        integer  NOT NULL, -- of the last answer
	CONSTRAINT sightings_pkey PRIMARY KEY (k, first_fence, kind)
) WITH (fillfactor = 70);

-- tag_lines returns each of the tags.
CREATE FUNCTION {{schema}}.tag_lines(tags bytea) RETURNS SETOF bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE
	BEGIN ATOMIC
		SELECT decode(line, 'escape') FROM string_to_table(encode(tags, 'escape'), E'\n') AS line;
	END;

-- note_tags runs when a record begins: one that is new, or one that has taken the place of an expired one of its key.
CREATE FUNCTION {{schema}}.note_tags() RETURNS trigger
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
BEGIN
	IF TG_OP = 'UPDATE' THEN
		DELETE FROM {{schema}}.tags t
			WHERE t.k = OLD.k AND t.first_fence = OLD.first_fence AND t.tag = ANY (ARRAY(SELECT {{schema}}.tag_lines(OLD.tags)));
		DELETE FROM {{schema}}.sightings s WHERE s.k = OLD.k AND s.first_fence = OLD.first_fence;
	END IF;
	INSERT INTO {{schema}}.tags (tag, first_fence, k) SELECT line, NEW.first_fence, NEW.k FROM {{schema}}.tag_lines(NEW.tags) AS line;
	RETURN NULL;
END $$;

CREATE TRIGGER tags_of_new AFTER INSERT ON {{schema}}.claims
	FOR EACH ROW WHEN (NEW.tags IS NOT NULL) EXECUTE FUNCTION {{schema}}.note_tags();
CREATE TRIGGER tags_of_next AFTER UPDATE OF first_fence ON {{schema}}.claims
	FOR EACH ROW WHEN (OLD.first_fence <> NEW.first_fence) EXECUTE FUNCTION {{schema}}.note_tags();

-- forget runs when records were deleted, unless they have moved to older. Sightings are locked in the order in which
-- add_sightings.sql locks them. Those of earlier records of the key, which were added while that was deleted, go too.
CREATE FUNCTION {{schema}}.forget() RETURNS trigger
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off AS $$
BEGIN
	DELETE FROM {{schema}}.tags t USING gone g CROSS JOIN LATERAL {{schema}}.tag_lines(g.tags) AS line
		WHERE g.tags IS NOT NULL AND t.tag = line AND t.first_fence = g.first_fence AND t.k = g.k
			AND NOT EXISTS (SELECT FROM {{schema}}.older o WHERE o.k = g.k AND o.first_fence = g.first_fence);
	WITH ended AS MATERIALIZED (
		SELECT s.k, s.first_fence, s.kind FROM gone g JOIN {{schema}}.sightings s ON s.k = g.k AND s.first_fence <= g.first_fence
		WHERE NOT EXISTS (SELECT FROM {{schema}}.older o WHERE o.k = s.k AND o.first_fence = s.first_fence)
		ORDER BY s.k, s.first_fence, s.kind FOR UPDATE OF s
	)
	DELETE FROM {{schema}}.sightings s USING ended e WHERE s.k = e.k AND s.first_fence = e.first_fence AND s.kind = e.kind;
	RETURN NULL;
END $$;

CREATE TRIGGER forget AFTER DELETE ON {{schema}}.claims REFERENCING OLD TABLE AS gone
	FOR EACH STATEMENT EXECUTE FUNCTION {{schema}}.forget();
CREATE TRIGGER forget AFTER DELETE ON {{schema}}.older REFERENCING OLD TABLE AS gone
	FOR EACH STATEMENT EXECUTE FUNCTION {{schema}}.forget();

-- The view has three more columns, which cost nothing unless they are read.
CREATE OR REPLACE VIEW {{schema}}.records AS
SELECT c.k AS digest, encode(c.scope, 'escape') AS scope, encode(c.id, 'escape') AS id,
	CASE WHEN c.state = 1 AND c.ends_at <= {{schema}}.clock() THEN 'abandoned'
		ELSE (ARRAY['pending', 'released', 'succeeded', 'failed'])[c.state] END AS state,
	c.attempt, c.fence, c.steps, encode(c.fingerprint, 'escape') AS fingerprint,
	{{schema}}.as_time(c.claimed_at) AS claimed_at,
	CASE WHEN c.state = 1 THEN {{schema}}.as_time(c.ends_at) END AS lease_until,
	CASE WHEN c.state > 2 THEN {{schema}}.as_time(c.ends_at) END AS ended_at,
	{{schema}}.as_time(c.ends_at + c.keep_replay) AS replay_until,
	{{schema}}.as_time(c.ends_at + c.keep_key) AS key_until,
	{{schema}}.as_time(c.ends_at + c.keep_audit) AS audit_until,
	CASE WHEN c.state > 2 THEN c.code END AS code, c.omitted, octet_length(r.body) AS bytes,
	encode(r.meta, 'escape') AS meta, r.body, {{schema}}.as_json(r.body) AS json,
	CASE current_setting('server_encoding') WHEN 'UTF8' THEN convert_from(c.tags, 'UTF8') ELSE encode(c.tags, 'escape') END AS tags,
	coalesce((SELECT s.count FROM {{schema}}.sightings s
		WHERE s.k = c.k AND s.first_fence = c.first_fence AND s.kind = 1), 0) AS replays,
	(SELECT {{schema}}.as_time(max(s.last_at)) FROM {{schema}}.sightings s
		WHERE s.k = c.k AND s.first_fence = c.first_fence) AS last_seen
FROM (SELECT * FROM {{schema}}.claims UNION ALL SELECT * FROM {{schema}}.older) c
LEFT JOIN {{schema}}.results r ON c.state > 2 AND r.ended_at = c.ends_at AND r.k = c.k AND r.keep_until > {{schema}}.clock()
WHERE c.ends_at + CASE WHEN c.state > 2 THEN greatest(c.keep_key, c.keep_audit) ELSE c.keep_key END > {{schema}}.clock();
