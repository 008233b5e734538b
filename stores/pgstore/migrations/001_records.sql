-- oldest: 1
-- Times are microseconds since 1970 on the server's clock, durations microseconds.
CREATE FUNCTION {{schema}}.clock() RETURNS bigint LANGUAGE sql VOLATILE PARALLEL SAFE
	RETURN (date_part('epoch', clock_timestamp()) * 1e6)::bigint;

-- One row for each key that is taken. It stays narrow: answers are in results.
CREATE TABLE {{schema}}.claims (
	k           uuid     NOT NULL, -- digest of scope and ID
	owner       uuid     NOT NULL, -- of the last claim
	fence       bigint   NOT NULL, -- of the last claim
	first_fence bigint   NOT NULL, -- of the first claim
	claimed_at  bigint   NOT NULL, -- when that was
	ends_at     bigint   NOT NULL, -- of the lease while the record is pending; after that, when it ended
	keep_replay bigint   NOT NULL, -- durations that count from ends_at
	keep_key    bigint   NOT NULL,
	keep_audit  bigint   NOT NULL,
	sweep_at    integer  NOT NULL, -- the minute in which to look whether the record has expired
	attempt     integer  NOT NULL,
	steps       integer  NOT NULL, -- how many there are
	code        integer  NOT NULL,
	state       smallint NOT NULL, -- 1 pending, 2 released, 3 succeeded, 4 failed
	omitted     boolean  NOT NULL,
	waiters     boolean  NOT NULL, -- a caller waits for it to end: notify
	take_over   boolean  NOT NULL, -- whether the last claim was one that may take over
	fingerprint bytea    NOT NULL,
	scope       bytea    NOT NULL,
	id          bytea    NOT NULL,
	CONSTRAINT claims_pkey PRIMARY KEY (k)
) WITH (
	-- Half of each page is left for the completion of what is in it, which then touches no index.
	fillfactor = 50,
	autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 10000,
	autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05,
	autovacuum_vacuum_cost_delay = 1
);
-- Deadlines are rounded to the minute, so that many rows share an entry.
CREATE INDEX claims_sweep ON {{schema}}.claims (sweep_at);
CREATE INDEX claims_first ON {{schema}}.claims (first_fence);

-- Ended records whose key has been claimed again while their answer may still be read.
CREATE TABLE {{schema}}.older (LIKE {{schema}}.claims, CONSTRAINT older_pkey PRIMARY KEY (k, first_fence));
CREATE INDEX older_sweep ON {{schema}}.older (sweep_at);
CREATE INDEX older_first ON {{schema}}.older (first_fence);

-- Saved steps, as long as their record is there.
CREATE TABLE {{schema}}.steps (
	k           uuid    NOT NULL,
	first_fence bigint  NOT NULL,
	n           integer NOT NULL, -- their order
	name        bytea   NOT NULL,
	data        bytea   NOT NULL,
	CONSTRAINT steps_pkey PRIMARY KEY (k, first_fence, name)
);

-- Answers, by the day on which the work ended. A partition is dropped as a whole once no answer in it may be read.
CREATE TABLE {{schema}}.results (
	ended_at   bigint NOT NULL, -- ends_at of the record
	k          uuid   NOT NULL,
	keep_until bigint NOT NULL, -- the end of both replay and audit
	meta       bytea  NOT NULL,
	body       bytea  NOT NULL,
	CONSTRAINT results_pkey PRIMARY KEY (ended_at, k)
) PARTITION BY RANGE (ended_at);

-- What only one process at a time does, and until when it may.
CREATE TABLE {{schema}}.locks (
	name   text   NOT NULL CONSTRAINT locks_pkey PRIMARY KEY,
	holder uuid   NOT NULL,
	until  bigint NOT NULL
);
INSERT INTO {{schema}}.locks VALUES ('days', gen_random_uuid(), 0), ('sweep', gen_random_uuid(), 0);

-- add_days makes the partitions of days that have none: days counted from 1970, in UTC. It runs with its owner's
-- rights, so that the role of a store needs none to create tables. Attaching a table locks no other session out,
-- unlike creating a partition.
CREATE FUNCTION {{schema}}.add_days(first bigint, days integer) RETURNS integer
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	day_length CONSTANT bigint := 86400000000;
	part text;
	added integer := 0;
BEGIN
	PERFORM FROM {{schema}}.locks WHERE name = 'days' FOR UPDATE; -- one at a time
	FOR day IN first .. first + least(days, 400) - 1 LOOP
		part := 'results_' || to_char(date '1970-01-01' + day::integer, 'YYYYMMDD');
		CONTINUE WHEN to_regclass(format('{{schema}}.%I', part)) IS NOT NULL;
		EXECUTE format('CREATE TABLE {{schema}}.%I (LIKE {{schema}}.results INCLUDING ALL)', part);
		EXECUTE format('ALTER TABLE {{schema}}.%I ADD CONSTRAINT day CHECK (ended_at >= %s AND ended_at < %s)',
			part, day * day_length, (day + 1) * day_length);
		EXECUTE format('ALTER TABLE {{schema}}.results ATTACH PARTITION {{schema}}.%I FOR VALUES FROM (%s) TO (%s)',
			part, day * day_length, (day + 1) * day_length);
		EXECUTE format('ALTER TABLE {{schema}}.%I DROP CONSTRAINT day', part);
		added := added + 1;
	END LOOP;
	RETURN added;
END $$;

-- as_json is bytes as JSON, exactly as they are written; NULL if they are not JSON.
CREATE FUNCTION {{schema}}.as_json(bytes bytea) RETURNS json LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
	SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	RETURN convert_from(bytes, 'UTF8')::json;
EXCEPTION WHEN OTHERS THEN
	RETURN NULL;
END $$;

CREATE FUNCTION {{schema}}.as_time(micros bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN to_timestamp(least(micros, 9000000000000000) / 1e6);

-- records shows all of it to people.
CREATE VIEW {{schema}}.records AS
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
	encode(r.meta, 'escape') AS meta, r.body, {{schema}}.as_json(r.body) AS json
FROM (SELECT * FROM {{schema}}.claims UNION ALL SELECT * FROM {{schema}}.older) c
LEFT JOIN {{schema}}.results r ON c.state > 2 AND r.ended_at = c.ends_at AND r.k = c.k AND r.keep_until > {{schema}}.clock()
WHERE c.ends_at + CASE WHEN c.state > 2 THEN greatest(c.keep_key, c.keep_audit) ELSE c.keep_key END > {{schema}}.clock();
