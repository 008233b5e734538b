-- oldest: 1
-- hold has the COMMIT of the work's transaction fail unless the key is ended in it.

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

-- end_attempt completes a key with an answer, in the caller's transaction. Windows that are NULL stay those of the
-- claim.
CREATE OR REPLACE FUNCTION {{schema}}.end_attempt(lease text, verb text, new_state smallint, new_code integer, new_omitted boolean,
	new_meta bytea, new_body bytea, new_replay bigint, new_key bigint, new_audit bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	l record;
	ended record;
	known record;
	ended_day bigint;
BEGIN
	SELECT * INTO l FROM {{schema}}.read_lease(lease);
	PERFORM {{schema}}.needs_transaction(verb);
	UPDATE {{schema}}.claims c SET
		state = new_state, code = new_code, omitted = new_omitted, ends_at = {{schema}}.clock(),
		keep_replay = coalesce(new_replay, c.keep_replay), keep_key = coalesce(new_key, c.keep_key),
		keep_audit = coalesce(new_audit, c.keep_audit),
		-- Looking a little late costs nothing, and an unchanged value leaves the indexes alone.
		sweep_at = CASE WHEN c.sweep_at - ({{schema}}.clock() + greatest(coalesce(new_key, c.keep_key), coalesce(new_audit, c.keep_audit))) / 60000000
			BETWEEN 0 AND 3 THEN c.sweep_at
			ELSE ({{schema}}.clock() + greatest(coalesce(new_key, c.keep_key), coalesce(new_audit, c.keep_audit))) / 60000000 END
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

REVOKE ALL ON FUNCTION {{schema}}.mark_ended(uuid, bigint), {{schema}}.ended_here(uuid, bigint), {{schema}}.check_hold(),
	{{schema}}.hold(text) FROM PUBLIC;
