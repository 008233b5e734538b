-- oldest: 1
-- hold, and what a review of the functions has found.

-- mark_ended notes that this transaction has ended the attempt with that fence. The note goes with the transaction, and
-- with a savepoint that is rolled back.
CREATE FUNCTION {{schema}}.mark_ended(k uuid, fence bigint) RETURNS void LANGUAGE sql
	RETURN set_config('retrysafe.ended', concat(current_setting('retrysafe.ended', true), ' ', k, ':', fence, ' '), true);

-- ended_here reports whether this transaction has ended the attempt with that fence.
CREATE FUNCTION {{schema}}.ended_here(k uuid, fence bigint) RETURNS boolean LANGUAGE sql
	RETURN position(concat(' ', k, ':', fence, ' ') IN coalesce(current_setting('retrysafe.ended', true), '')) > 0;

-- Holds has no rows: one is inserted and deleted at once to have its trigger run at COMMIT. It is not logged, so that it
-- costs no WAL, and because a publication of all tables would refuse to delete from a table without a primary key.
-- VACUUM does not truncate it, which would lock others out for a moment.
CREATE UNLOGGED TABLE {{schema}}.holds (k uuid NOT NULL, fence bigint NOT NULL) WITH (vacuum_truncate = off);

CREATE FUNCTION {{schema}}.check_hold() RETURNS trigger
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	IF NOT {{schema}}.ended_here(NEW.k, NEW.fence) THEN
		RAISE EXCEPTION 'retrysafe: hold key %: the transaction ends, and has not completed the key', replace(NEW.k::text, '-', '')
			USING ERRCODE = 'RS008', HINT = 'Nothing was committed. Call complete, fail or release in the transaction that called hold, before COMMIT; if the work is not to count, roll back. Either something committed before complete, such as a helper, a framework that answers with an error, or autocommit; or complete ran on another connection, or in a savepoint that was rolled back.';
	END IF;
	RETURN NULL;
END $$;

CREATE CONSTRAINT TRIGGER check_hold AFTER INSERT ON {{schema}}.holds
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {{schema}}.check_hold();

-- hold is the first statement of the work's transaction: from then on it can only commit if it has completed, failed or
-- released the key. It locks nothing.
CREATE FUNCTION {{schema}}.hold(lease text) RETURNS void
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
	l record;
	held record;
	added tid;
BEGIN
	SELECT * INTO l FROM {{schema}}.read_lease(lease);
	SELECT c.state INTO held FROM {{schema}}.claims c
		WHERE c.k = l.k AND c.fence = l.fence AND c.owner = l.owner AND c.state <> 2 AND c.ends_at + c.keep_key > {{schema}}.clock();
	IF NOT FOUND THEN
		PERFORM {{schema}}.lease_lost(l.k, 'hold');
	ELSIF held.state > 2 THEN
		RAISE EXCEPTION 'retrysafe: hold key %: it has been completed', replace(l.k::text, '-', '')
			USING ERRCODE = 'RS004', HINT = 'Roll back. If the answer to an earlier COMMIT was lost, that transaction has committed, and claim returns the answer. Otherwise call hold before complete.';
	END IF;
	INSERT INTO {{schema}}.holds VALUES (l.k, l.fence) RETURNING ctid INTO added;
	DELETE FROM {{schema}}.holds WHERE ctid = added;
END $$;

-- durable has this transaction wait until it is on disk: a role with synchronous_commit = off would lose a claim, a step
-- or a completion that was acknowledged. Other values are somebody's choice, and stay.
CREATE FUNCTION {{schema}}.durable() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	IF current_setting('synchronous_commit') = 'off' THEN
		PERFORM set_config('synchronous_commit', 'on', true);
	END IF;
END $$;

-- end_attempt completes a key with an answer, in the caller's transaction. Windows that are NULL stay those of the
-- claim; the key stays taken for as long as the answer may be read at least.
CREATE OR REPLACE FUNCTION {{schema}}.end_attempt(lease text, verb text, new_state smallint, new_code integer, new_omitted boolean,
	new_meta bytea, new_body bytea, new_replay bigint, new_key bigint, new_audit bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	l record;
	ended record;
	known record;
	ended_day bigint;
	has_written CONSTANT boolean := pg_current_xact_id_if_assigned() IS NOT NULL;
BEGIN
	SELECT * INTO l FROM {{schema}}.read_lease(lease);
	PERFORM {{schema}}.durable();
	UPDATE {{schema}}.claims c SET
		state = new_state, code = new_code, omitted = new_omitted, ends_at = {{schema}}.clock(),
		keep_replay = coalesce(new_replay, c.keep_replay), keep_key = coalesce(new_key, greatest(c.keep_key, new_replay)),
		keep_audit = coalesce(new_audit, greatest(c.keep_audit, new_replay)),
		-- Looking a little late costs nothing, and an unchanged value leaves the indexes alone.
		sweep_at = CASE WHEN c.sweep_at - ({{schema}}.clock() + greatest(coalesce(new_key, greatest(c.keep_key, new_replay)), coalesce(new_audit, c.keep_audit))) / 60000000
			BETWEEN 0 AND 3 THEN c.sweep_at
			ELSE ({{schema}}.clock() + greatest(coalesce(new_key, greatest(c.keep_key, new_replay)), coalesce(new_audit, c.keep_audit))) / 60000000 END
	WHERE c.k = l.k AND c.fence = l.fence AND c.owner = l.owner AND c.state = 1 AND c.ends_at + c.keep_key > {{schema}}.clock()
	RETURNING c.ends_at, c.ends_at + greatest(c.keep_replay, c.keep_audit) AS keep_until, c.waiters INTO ended;
	IF NOT FOUND THEN
		SELECT c.code = new_code AND c.state = new_state AND (r.k IS NULL OR r.meta = new_meta AND r.body = new_body) AS same INTO known
			FROM {{schema}}.claims c LEFT JOIN {{schema}}.results r ON r.ended_at = c.ends_at AND r.k = c.k
			WHERE c.k = l.k AND c.fence = l.fence AND c.owner = l.owner AND c.state > 2 AND c.ends_at + c.keep_key > {{schema}}.clock();
		IF NOT FOUND THEN
			PERFORM {{schema}}.lease_lost(l.k, verb);
		ELSIF NOT known.same THEN
			RAISE EXCEPTION 'retrysafe: % key %: it has been completed with another answer', verb, replace(l.k::text, '-', '')
				USING ERRCODE = 'RS004', HINT = 'An attempt completes its key once. Roll back; the first answer stays.';
		ELSIF NOT {{schema}}.ended_here(l.k, l.fence) THEN
			-- The work ran again because the answer to its COMMIT was lost. What it wrote this time would be there twice.
			RAISE EXCEPTION 'retrysafe: % key %: an earlier transaction has completed it', verb, replace(l.k::text, '-', '')
				USING ERRCODE = 'RS004', HINT = 'That transaction has committed, so roll this one back. claim returns the answer.';
		END IF;
		RETURN;
	ELSIF NOT has_written THEN
		-- A statement in autocommit mode; or the work was committed before, or is on another connection.
		RAISE EXCEPTION 'retrysafe: % key %: the transaction has written nothing before', verb, replace(l.k::text, '-', '') USING ERRCODE = 'RS005',
			HINT = 'BEGIN, write what the work writes, call this last on the same connection, then COMMIT. Look for autocommit, for a helper that commits, and for another connection of a pool. If there is nothing to write, call hold first.';
	END IF;
	PERFORM {{schema}}.mark_ended(l.k, l.fence);
	ended_day := ended.ends_at / 86400000000;
	IF to_regclass('{{schema}}.results_' || to_char(date '1970-01-01' + ended_day::integer, 'YYYYMMDD')) IS NULL THEN
		PERFORM {{schema}}.add_days(ended_day, 1);
	END IF;
	INSERT INTO {{schema}}.results (ended_at, k, keep_until, meta, body)
		VALUES (ended.ends_at, l.k, ended.keep_until, new_meta, new_body);
	IF ended.waiters THEN
		PERFORM pg_notify({{channel}}, l.k::text);
	END IF;
END $$;

-- release gives the key up: nothing happened, and a retry runs.
CREATE OR REPLACE FUNCTION {{schema}}.release(lease text) RETURNS void
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
	l record;
	freed record;
BEGIN
	SELECT * INTO l FROM {{schema}}.read_lease(lease);
	UPDATE {{schema}}.claims c SET state = 2,
		ends_at = CASE WHEN c.steps > 0 THEN {{schema}}.clock() ELSE 0 END,
		keep_replay = CASE WHEN c.steps > 0 THEN c.keep_replay ELSE 0 END,
		keep_key = CASE WHEN c.steps > 0 THEN c.keep_key ELSE 0 END,
		keep_audit = CASE WHEN c.steps > 0 THEN c.keep_audit ELSE 0 END,
		sweep_at = CASE WHEN c.steps > 0 THEN c.sweep_at ELSE {{schema}}.clock() / 60000000 + 1 END
	WHERE c.k = l.k AND c.fence = l.fence AND c.owner = l.owner AND c.state = 1 AND c.ends_at + c.keep_key > {{schema}}.clock()
	RETURNING c.waiters INTO freed;
	IF FOUND THEN
		PERFORM {{schema}}.mark_ended(l.k, l.fence);
		IF freed.waiters THEN
			PERFORM pg_notify({{channel}}, l.k::text);
		END IF;
	ELSIF EXISTS (SELECT FROM {{schema}}.claims c
		WHERE c.k = l.k AND c.state <> 2 AND c.ends_at + c.keep_key > {{schema}}.clock()) THEN
		PERFORM {{schema}}.lease_lost(l.k, 'release');
	END IF;
END $$;

-- end_http checks and saves the answer of complete and fail.
CREATE OR REPLACE FUNCTION {{schema}}.end_http(lease text, verb text, new_state smallint, body bytea, code integer, content_type text,
	headers text[], keep interval) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	kept CONSTANT bigint := {{schema}}.micros(keep);
BEGIN
	IF body IS NULL THEN
		PERFORM {{schema}}.bad_argument('the body is NULL', 'Pass the answer; '''' is an answer without a body.');
	ELSIF octet_length(body) > 16777216 THEN
		PERFORM {{schema}}.bad_argument(format('the body has %s bytes, and the limit is 16777216', octet_length(body)),
			'Store a large answer elsewhere, and complete with a reference to it.');
	ELSIF new_state = 3 AND (code BETWEEN 200 AND 399) IS NOT TRUE THEN
		PERFORM {{schema}}.bad_argument(format('complete with the code %s', coalesce(code::text, 'NULL')),
			'complete takes a status from 200 to 399. For a failure that every retry is to get, call fail; otherwise release, or roll back.');
	ELSIF new_state = 4 AND (code BETWEEN 400 AND 599) IS NOT TRUE THEN
		PERFORM {{schema}}.bad_argument(format('fail with the code %s', coalesce(code::text, 'NULL')),
			'fail takes a status from 400 to 599. For a success call complete.');
	ELSIF keep <= interval '0' THEN
		PERFORM {{schema}}.bad_argument('keep is not positive', 'Say how long retries get the answer, such as ''24 hours''.');
	END IF;
	PERFORM {{schema}}.end_attempt(lease, verb, new_state, code, false, {{schema}}.http_meta(content_type, headers), body,
		kept, NULL, NULL);
END $$;

-- save_step saves the result of a part of the work, which later attempts at the key get from step. The first result
-- under a name stays. In a transaction, it is there if that commits.
CREATE OR REPLACE FUNCTION {{schema}}.save_step(lease text, name text, data bytea) RETURNS void
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
	l record;
	held record;
BEGIN
	SELECT * INTO l FROM {{schema}}.read_lease(save_step.lease);
	IF coalesce(save_step.name, '') = '' OR save_step.data IS NULL THEN
		PERFORM {{schema}}.bad_argument('a step needs a name and data', 'Pass the step''s name and its result; '''' is a result.');
	ELSIF octet_length(save_step.name) > 2048 THEN -- an index has no room for more
		PERFORM {{schema}}.bad_argument(format('the step''s name has %s bytes, and the limit is 2048', octet_length(save_step.name)),
			'Use a shorter name, such as a digest.');
	ELSIF octet_length(save_step.data) > 16777216 THEN
		PERFORM {{schema}}.bad_argument(format('the data has %s bytes, and the limit is 16777216', octet_length(save_step.data)),
			'Store a large result elsewhere, and save a reference to it.');
	END IF;
	PERFORM {{schema}}.durable();
	UPDATE {{schema}}.claims c SET steps = c.steps + 1
	WHERE c.k = l.k AND c.fence = l.fence AND c.owner = l.owner AND c.state = 1 AND c.ends_at + c.keep_key > {{schema}}.clock()
	RETURNING c.first_fence, c.steps INTO held;
	IF NOT FOUND THEN
		PERFORM {{schema}}.lease_lost(l.k, 'save a step of');
	END IF;
	INSERT INTO {{schema}}.steps (k, first_fence, n, name, data)
		VALUES (l.k, held.first_fence, held.steps, convert_to(save_step.name, 'UTF8'), save_step.data)
		ON CONFLICT (k, first_fence, name) DO NOTHING;
END $$;

-- claim is claim_record for services. It commits with the caller's transaction: call it in one of its own, before the
-- work begins. It waits half a second for a row that another transaction holds, such as that of a service between
-- complete and COMMIT, and then says in_flight. If the record is of another request, it shows none of its content.
CREATE OR REPLACE FUNCTION {{schema}}.claim(scope bytea, id bytea, fingerprint bytea DEFAULT '', lease_for interval DEFAULT '30 seconds',
	keep interval DEFAULT '24 hours', take_over boolean DEFAULT false, owner uuid DEFAULT NULL,
	keep_key interval DEFAULT NULL, keep_audit interval DEFAULT NULL) RETURNS "{{schema}}".claimed
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET lock_timeout = '500ms' AS $$
DECLARE
	today CONSTANT bigint := {{schema}}.clock() / 86400000000;
	c "{{schema}}".claimed;
BEGIN
	PERFORM {{schema}}.durable();
	-- Made a day ahead, so that a completion seldom has to; not if another transaction does.
	IF to_regclass('{{schema}}.results_' || to_char(date '1970-01-01' + today::integer + 1, 'YYYYMMDD')) IS NULL THEN
		BEGIN
			PERFORM FROM {{schema}}.locks WHERE name = 'days' FOR UPDATE SKIP LOCKED;
			IF FOUND THEN
				PERFORM {{schema}}.add_days(today, 14);
			END IF;
		EXCEPTION WHEN lock_not_available THEN
			NULL;
		END;
	END IF;
	c := {{schema}}.claim_record(scope, id, fingerprint, lease_for, keep, take_over, owner, keep_key, keep_audit);
	IF c.verdict = 'mismatch' THEN
		c.code := NULL;
		c.content_type := NULL;
		c.headers := NULL;
		c.body := NULL;
		c.failed := NULL;
		c.omitted := NULL;
		c.stored_fingerprint := NULL;
		c.step_names := NULL;
		c.step_data := NULL;
		c.meta := NULL;
	END IF;
	RETURN c;
END $$;

-- owner_only takes the rights to a table from all others. ALTER DEFAULT PRIVILEGES may have given them to a service, which
-- could read all answers.
CREATE FUNCTION {{schema}}.owner_only(the_table regclass) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	other oid;
BEGIN
	FOR other IN SELECT DISTINCT a.grantee FROM pg_class c, aclexplode(c.relacl) a
		WHERE c.oid = the_table AND a.grantee <> c.relowner LOOP
		EXECUTE format('REVOKE ALL ON %s FROM %s CASCADE', the_table, CASE WHEN other = 0 THEN 'PUBLIC' ELSE other::regrole::text END);
	END LOOP;
END $$;

-- add_days makes the partitions of days that have none, as before. Nobody needs rights to a partition but its owner.
CREATE OR REPLACE FUNCTION {{schema}}.add_days(first bigint, days integer) RETURNS integer
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	day_length CONSTANT bigint := 86400000000;
	today CONSTANT bigint := {{schema}}.clock() / day_length;
	part text;
	added integer := 0;
BEGIN
	PERFORM FROM {{schema}}.locks WHERE name = 'days' FOR UPDATE; -- one at a time
	FOR day IN greatest(first, today) .. least(first + days - 1, today + 13) LOOP
		part := 'results_' || to_char(date '1970-01-01' + day::integer, 'YYYYMMDD');
		CONTINUE WHEN to_regclass(format('{{schema}}.%I', part)) IS NOT NULL;
		EXECUTE format('CREATE TABLE {{schema}}.%I (LIKE {{schema}}.results INCLUDING ALL)', part);
		PERFORM {{schema}}.owner_only(format('{{schema}}.%I', part)::regclass);
		EXECUTE format('ALTER TABLE {{schema}}.%I ADD CONSTRAINT day CHECK (ended_at >= %s AND ended_at < %s)',
			part, day * day_length, (day + 1) * day_length);
		EXECUTE format('ALTER TABLE {{schema}}.results ATTACH PARTITION {{schema}}.%I FOR VALUES FROM (%s) TO (%s)',
			part, day * day_length, (day + 1) * day_length);
		EXECUTE format('ALTER TABLE {{schema}}.%I DROP CONSTRAINT day', part);
		added := added + 1;
	END LOOP;
	RETURN added;
END $$;

DO $$ DECLARE
	part regclass;
	public_one regprocedure;
BEGIN
	FOR part IN SELECT inhrelid FROM pg_inherits WHERE inhparent = '{{schema}}.results'::regclass
		UNION ALL SELECT '{{schema}}.holds'::regclass LOOP
		PERFORM {{schema}}.owner_only(part);
	END LOOP;
	-- The bodies of functions are read when they run, and have backslashes.
	FOR public_one IN SELECT oid FROM pg_proc WHERE pronamespace = {{schema_text}}::regnamespace AND prosecdef LOOP
		EXECUTE format('ALTER FUNCTION %s SET standard_conforming_strings = on', public_one);
	END LOOP;
END $$;

-- It catches errors, which a parallel query cannot: the view of the records failed once there were enough of them.
ALTER FUNCTION {{schema}}.as_json(bytea) PARALLEL UNSAFE;

REVOKE ALL ON FUNCTION {{schema}}.mark_ended(uuid, bigint), {{schema}}.ended_here(uuid, bigint), {{schema}}.check_hold(),
	{{schema}}.hold(text), {{schema}}.durable(), {{schema}}.owner_only(regclass) FROM PUBLIC;

-- end_attempt itself sees now what they were for.
DROP FUNCTION {{schema}}.needs_transaction(text);
DROP TABLE {{schema}}.transaction_checks;
DROP FUNCTION {{schema}}.check_transaction();
