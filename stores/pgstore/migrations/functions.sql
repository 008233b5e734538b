-- The functions of this version. The last migration ends with this file, which replaces those of earlier versions: a
-- change here comes with another migration. They run with the rights of their owner: a service's role may call them and
-- needs no right to the tables. With claim and the functions behind it, a service in any language claims keys and
-- completes them in its own transaction; each does what the statement of the same name does for a Store.

-- owner_only takes the rights to a table from all others. ALTER DEFAULT PRIVILEGES may have given them to a service, which
-- could read all answers.
CREATE OR REPLACE FUNCTION {{schema}}.owner_only(the_table regclass) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	other oid;
BEGIN
	FOR other IN SELECT DISTINCT a.grantee FROM pg_class c, aclexplode(c.relacl) a
		WHERE c.oid = the_table AND a.grantee <> c.relowner LOOP
		EXECUTE format('REVOKE ALL ON %s FROM %s CASCADE', the_table, CASE WHEN other = 0 THEN 'PUBLIC' ELSE other::regrole::text END);
	END LOOP;
END $$;

-- add_days makes the partitions of days that have none: days counted from 1970, in UTC. It runs with its owner's
-- rights, so that the role of a store needs none to create tables; therefore it makes those of the next two weeks and
-- no others, whatever its arguments are. Attaching a table locks no other session out, unlike creating a partition.
-- Nobody needs rights to a partition but its owner.
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

-- micros is an interval in microseconds: none is negative, and 292 years are the longest.
CREATE OR REPLACE FUNCTION {{schema}}.micros(i interval) RETURNS bigint LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
	RETURN greatest(0, least(extract(epoch FROM i) * 1000000, 9223372036854775))::bigint;

-- as_interval is microseconds as an interval; none is negative.
CREATE OR REPLACE FUNCTION {{schema}}.as_interval(micros bigint) RETURNS interval LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN greatest(micros, 0) * interval '1 microsecond';

-- length_prefixed joins parts, each behind its length as a varint.
CREATE OR REPLACE FUNCTION {{schema}}.length_prefixed(VARIADIC parts bytea[]) RETURNS bytea LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
	part bytea;
	n integer;
	joined bytea := '';
BEGIN
	FOREACH part IN ARRAY parts LOOP
		n := octet_length(part);
		WHILE n > 127 LOOP
			joined := joined || set_byte('\x00', 0, n & 127 | 128);
			n := n >> 7;
		END LOOP;
		joined := joined || set_byte('\x00', 0, n) || part;
	END LOOP;
	RETURN joined;
END $$;

-- digest identifies a key.
CREATE OR REPLACE FUNCTION {{schema}}.digest(scope bytea, id bytea) RETURNS uuid LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN encode(substring(sha256({{schema}}.length_prefixed(scope, id)) FOR 16), 'hex')::uuid;

-- lease_token is the text that stands for a lease. read_lease reads it.
CREATE OR REPLACE FUNCTION {{schema}}.lease_token(k uuid, owner uuid, fence bigint) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN 'v1.' || rtrim(translate(encode(uuid_send(k) || uuid_send(owner) || int8send(fence), 'base64'), '+/', '-_'), '=');

CREATE OR REPLACE FUNCTION {{schema}}.read_lease(lease text, OUT k uuid, OUT owner uuid, OUT fence bigint) LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
	bytes bytea;
BEGIN
	IF (length(lease) = 57 AND lease ~ '^v1\.[A-Za-z0-9_-]+$') IS NOT TRUE THEN
		RAISE EXCEPTION 'retrysafe: this is not a lease token' USING ERRCODE = 'RS002',
			HINT = 'Pass the header Retrysafe-Lease of the request as it came, or the column lease of the row that claim returned.';
	END IF;
	bytes := decode(translate(substring(lease FROM 4), '-_', '+/') || '==', 'base64');
	k := encode(substring(bytes FROM 1 FOR 16), 'hex')::uuid;
	owner := encode(substring(bytes FROM 17 FOR 16), 'hex')::uuid;
	fence := ('x' || encode(substring(bytes FROM 33 FOR 8), 'hex'))::bit(64)::bigint;
END $$;

-- bad_argument says what is wrong with an argument.
CREATE OR REPLACE FUNCTION {{schema}}.bad_argument(what text, remedy text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	RAISE EXCEPTION 'retrysafe: %', what USING ERRCODE = 'RS006', HINT = remedy;
END $$;

-- lease_lost says why a lease does not hold its key.
CREATE OR REPLACE FUNCTION {{schema}}.lease_lost(the_key uuid, verb text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	IF EXISTS (SELECT FROM {{schema}}.claims c
		WHERE c.k = the_key AND (c.state = 2 OR c.ends_at + c.keep_key > {{schema}}.clock())) THEN
		RAISE EXCEPTION 'retrysafe: % key %: the lease is lost', verb, replace(the_key::text, '-', '') USING ERRCODE = 'RS001',
			HINT = 'Another attempt has taken the key over, or this one has ended or was given up. Roll back: nothing of this transaction may remain.';
	END IF;
	RAISE EXCEPTION 'retrysafe: % key %: there is no such claim', verb, replace(the_key::text, '-', '') USING ERRCODE = 'RS003',
		HINT = 'The key was never claimed in this database, or its record has expired, or the attempt was given up some time ago. Roll back, and check that service and proxy use the same database and schema.';
END $$;

-- mark_ended notes that this transaction has ended the attempt with that fence. The note goes with the transaction, and
-- with a savepoint that is rolled back.
CREATE OR REPLACE FUNCTION {{schema}}.mark_ended(k uuid, fence bigint) RETURNS void LANGUAGE sql
	RETURN set_config('retrysafe.ended', concat(current_setting('retrysafe.ended', true), ' ', k, ':', fence, ' '), true);

-- ended_here reports whether this transaction has ended the attempt with that fence.
CREATE OR REPLACE FUNCTION {{schema}}.ended_here(k uuid, fence bigint) RETURNS boolean LANGUAGE sql
	RETURN position(concat(' ', k, ':', fence, ' ') IN coalesce(current_setting('retrysafe.ended', true), '')) > 0;

-- durable has this transaction wait until it is on disk: a role with synchronous_commit = off would lose a claim, a step
-- or a completion that was acknowledged. Other values are somebody's choice, and stay.
CREATE OR REPLACE FUNCTION {{schema}}.durable() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	IF current_setting('synchronous_commit') = 'off' THEN
		PERFORM set_config('synchronous_commit', 'on', true);
	END IF;
END $$;

-- http_meta is what describes an HTTP answer.
CREATE OR REPLACE FUNCTION {{schema}}.http_meta(content_type text, headers text[]) RETURNS bytea LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
	line text;
	name text;
	meta text := E'http/1\n' || CASE WHEN coalesce(content_type, '') = '' THEN E'Content-Type\n'
		ELSE 'Content-Type: ' || content_type || E'\n' END;
BEGIN
	IF content_type ~ '[\x01-\x1f\x7f]' THEN
		PERFORM {{schema}}.bad_argument('the content type has a control character', 'Pass a media type, such as application/json.');
	END IF;
	FOREACH line IN ARRAY coalesce(headers, '{}') LOOP
		IF (line ~ '^[-A-Za-z0-9!#$%&''*+.^_`|~]+:' AND line !~ '[\x01-\x08\x0a-\x1f\x7f]') IS NOT TRUE THEN
			PERFORM {{schema}}.bad_argument('an element of headers is not a header line', 'Pass elements such as ''Location: /charges/17'', without control characters.');
		END IF;
		name := lower(split_part(line, ':', 1) COLLATE "C");
		-- Some servers take every byte but letters and digits for the same one: fields of ours are known in all spellings.
		IF name ~ '^(connection|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|http2-settings|date|age|via|warning|content-length|set-cookie)$'
			OR name ~ '^(idempotent[^a-z0-9]replayed|idempotency[^a-z0-9]status|retrysafe[^a-z0-9].*)$' THEN
			PERFORM {{schema}}.bad_argument(format('the header %s cannot be stored', name), 'Leave it out: it belongs to one connection, one client or one attempt, and every retry would get it.');
		END IF;
		IF name = 'content-type' THEN
			PERFORM {{schema}}.bad_argument('the content type is among the headers', 'Pass it as the argument content_type.');
		END IF;
		SELECT string_agg(upper(left(word, 1) COLLATE "C") || substring(word FROM 2), '-' ORDER BY n) INTO name
			FROM unnest(string_to_array(name, '-')) WITH ORDINALITY AS words (word, n);
		meta := meta || name || ': ' || btrim(substring(line FROM position(':' IN line) + 1), E' \t') || E'\n';
	END LOOP;
	IF octet_length(meta) > 65536 THEN
		PERFORM {{schema}}.bad_argument(format('content type and headers have %s bytes, and the limit is 65536', octet_length(meta)), 'Leave out what retries do not need.');
	END IF;
	RETURN convert_to(meta, 'UTF8');
END $$;

-- as_text reads bytes of a header, which need not be UTF-8.
CREATE OR REPLACE FUNCTION {{schema}}.as_text(bytes bytea) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	RETURN convert_from(bytes, 'UTF8');
EXCEPTION WHEN OTHERS THEN
	RETURN convert_from(bytes, 'LATIN1');
END $$;

-- hold is the first statement of the work's transaction: from then on it can only commit if it has completed, failed or
-- released the key. It locks nothing.
CREATE OR REPLACE FUNCTION {{schema}}.hold(lease text) RETURNS void
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

-- end_http checks and saves the answer of complete and fail. In the usual case it writes what end_attempt writes in one
-- statement and calls no other function, because these are most of the cost. The rest, all mistakes among it, it leaves
-- to the checks and to end_attempt. One reading of the clock finds the partition and is the time of the end, so that
-- midnight cannot come between.
CREATE OR REPLACE FUNCTION {{schema}}.end_http(lease text, verb text, new_state smallint, body bytea, code integer, content_type text,
	headers text[], keep interval) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	time_read CONSTANT bigint := {{schema}}.clock();
	token text;
	waiters boolean;
	mark text;
BEGIN
	IF keep IS NULL AND octet_length(body) <= 16777216 AND code / 200 = new_state - 2 -- 200 to 399, or 400 to 599
		AND length(lease) = 57 AND lease ~ '^v1\.[A-Za-z0-9_-]+$'
		AND pg_current_xact_id_if_assigned() IS NOT NULL AND current_setting('synchronous_commit') <> 'off'
		AND to_regclass('{{schema}}.results_' || to_char(date '1970-01-01' + (time_read / 86400000000)::integer, 'YYYYMMDD')) IS NOT NULL THEN
		token := encode(decode(translate(substring(lease FROM 4), '-_', '+/') || '==', 'base64'), 'hex');
		WITH ended AS (
			UPDATE {{schema}}.claims c SET
				state = new_state, code = end_http.code, omitted = false, ends_at = time_read,
				sweep_at = CASE WHEN c.sweep_at - (time_read + greatest(c.keep_key, c.keep_audit)) / 60000000 BETWEEN 0 AND 3 THEN c.sweep_at
					ELSE (time_read + greatest(c.keep_key, c.keep_audit)) / 60000000 END
			WHERE c.k = left(token, 32)::uuid AND c.owner = substring(token FROM 33 FOR 32)::uuid
				AND c.fence = ('x' || right(token, 16))::bit(64)::bigint AND c.state = 1 AND c.ends_at + c.keep_key > {{schema}}.clock()
			RETURNING c.k, c.fence, c.ends_at, c.ends_at + greatest(c.keep_replay, c.keep_audit) AS keep_until, c.waiters
		), saved AS (
			INSERT INTO {{schema}}.results (ended_at, k, keep_until, meta, body)
			SELECT e.ends_at, e.k, e.keep_until,
				CASE WHEN end_http.content_type = 'application/json' AND end_http.headers = '{}'
					THEN 'http/1\012Content-Type: application/json\012'::bytea
					ELSE {{schema}}.http_meta(end_http.content_type, end_http.headers) END,
				end_http.body
			FROM ended e
		)
		SELECT e.waiters, set_config('retrysafe.ended', concat(current_setting('retrysafe.ended', true), ' ', e.k, ':', e.fence, ' '), true)
			INTO waiters, mark FROM ended e; -- the mark is that of mark_ended
		IF FOUND THEN
			IF waiters THEN
				PERFORM pg_notify({{channel}}, left(token, 32)::uuid::text);
			END IF;
			RETURN;
		END IF;
	END IF;
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
		{{schema}}.micros(keep), NULL, NULL);
END $$;

-- complete ends the attempt of a lease with a success that every retry gets, in the caller's transaction: it is there if
-- the transaction commits. It raises an exception if the lease was lost, so that the transaction rolls back.
CREATE OR REPLACE FUNCTION {{schema}}.complete(lease text, body bytea, code integer DEFAULT 200,
	content_type text DEFAULT 'application/json', headers text[] DEFAULT '{}', keep interval DEFAULT NULL) RETURNS void
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
BEGIN
	PERFORM {{schema}}.end_http(lease, 'complete', 3::smallint, body, code, content_type, headers, keep);
END $$;

CREATE OR REPLACE FUNCTION {{schema}}.complete(lease text, body text, code integer DEFAULT 200,
	content_type text DEFAULT 'application/json', headers text[] DEFAULT '{}', keep interval DEFAULT NULL) RETURNS void
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
BEGIN
	PERFORM {{schema}}.end_http(lease, 'complete', 3::smallint, convert_to(body, 'UTF8'), code, content_type, headers, keep);
END $$;

CREATE OR REPLACE FUNCTION {{schema}}.complete(lease text, body jsonb, code integer DEFAULT 200,
	content_type text DEFAULT 'application/json', headers text[] DEFAULT '{}', keep interval DEFAULT NULL) RETURNS void
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
BEGIN
	PERFORM {{schema}}.end_http(lease, 'complete', 3::smallint, convert_to(body::text, 'UTF8'), code, content_type, headers, keep);
END $$;

-- fail ends the attempt with a failure that every retry gets.
CREATE OR REPLACE FUNCTION {{schema}}.fail(lease text, body bytea, code integer DEFAULT 422,
	content_type text DEFAULT 'application/json', headers text[] DEFAULT '{}', keep interval DEFAULT NULL) RETURNS void
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
BEGIN
	PERFORM {{schema}}.end_http(lease, 'fail', 4::smallint, body, code, content_type, headers, keep);
END $$;

CREATE OR REPLACE FUNCTION {{schema}}.fail(lease text, body text, code integer DEFAULT 422,
	content_type text DEFAULT 'application/json', headers text[] DEFAULT '{}', keep interval DEFAULT NULL) RETURNS void
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
BEGIN
	PERFORM {{schema}}.end_http(lease, 'fail', 4::smallint, convert_to(body, 'UTF8'), code, content_type, headers, keep);
END $$;

CREATE OR REPLACE FUNCTION {{schema}}.fail(lease text, body jsonb, code integer DEFAULT 422,
	content_type text DEFAULT 'application/json', headers text[] DEFAULT '{}', keep interval DEFAULT NULL) RETURNS void
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
BEGIN
	PERFORM {{schema}}.end_http(lease, 'fail', 4::smallint, convert_to(body::text, 'UTF8'), code, content_type, headers, keep);
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

-- extend makes the lease run for so long from now. 0 ends it at once.
CREATE OR REPLACE FUNCTION {{schema}}.extend(lease text, lease_for interval) RETURNS void
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
	l record;
	extended record;
BEGIN
	SELECT * INTO l FROM {{schema}}.read_lease(lease);
	IF (lease_for >= interval '0') IS NOT TRUE THEN
		PERFORM {{schema}}.bad_argument('lease_for is negative or NULL', 'Say how long the lease is to run from now, such as ''30 seconds''; ''0'' ends it at once.');
	END IF;
	UPDATE {{schema}}.claims c SET ends_at = {{schema}}.clock() + {{schema}}.micros(lease_for)
	WHERE c.k = l.k AND c.fence = l.fence AND c.owner = l.owner AND c.state = 1 AND c.ends_at + c.keep_key > {{schema}}.clock()
	RETURNING c.waiters INTO extended;
	IF NOT FOUND THEN
		PERFORM {{schema}}.lease_lost(l.k, 'extend');
	ELSIF extended.waiters AND lease_for = interval '0' THEN
		PERFORM pg_notify({{channel}}, l.k::text);
	END IF;
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

CREATE OR REPLACE FUNCTION {{schema}}.save_step(lease text, name text, data text) RETURNS void
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
BEGIN
	PERFORM {{schema}}.save_step(lease, name, convert_to(data, 'UTF8'));
END $$;

-- step returns what was saved under a name, by this attempt or by an earlier one; NULL: nothing.
CREATE OR REPLACE FUNCTION {{schema}}.step(lease text, name text) RETURNS bytea
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
	l record;
	held record;
BEGIN
	SELECT * INTO l FROM {{schema}}.read_lease(step.lease);
	SELECT c.first_fence, (SELECT s.data FROM {{schema}}.steps s
		WHERE s.k = c.k AND s.first_fence = c.first_fence AND s.name = convert_to(step.name, 'UTF8')) AS data INTO held
		FROM {{schema}}.claims c
		WHERE c.k = l.k AND c.fence = l.fence AND c.owner = l.owner AND c.state = 1 AND c.ends_at + c.keep_key > {{schema}}.clock();
	IF NOT FOUND THEN
		PERFORM {{schema}}.lease_lost(l.k, 'read a step of');
	END IF;
	RETURN held.data;
END $$;

-- child_key derives the key for a call to another service: the same for the same key and name on every attempt.
CREATE OR REPLACE FUNCTION {{schema}}.child_key(lease text, name text) RETURNS text
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
	l record;
	held record;
BEGIN
	SELECT * INTO l FROM {{schema}}.read_lease(lease);
	IF coalesce(name, '') = '' THEN
		PERFORM {{schema}}.bad_argument('a child key needs a name', 'Pass a name for the call, such as ''capture''.');
	END IF;
	SELECT c.scope, c.id INTO held FROM {{schema}}.claims c
		WHERE c.k = l.k AND c.fence = l.fence AND c.owner = l.owner AND c.ends_at + c.keep_key > {{schema}}.clock();
	IF NOT FOUND THEN
		PERFORM {{schema}}.lease_lost(l.k, 'derive a child of');
	END IF;
	RETURN encode(substring(sha256({{schema}}.length_prefixed(held.scope, held.id, convert_to(name, 'UTF8'))) FOR 16), 'hex');
END $$;

-- read_tags checks tags, and returns them as lines of name=value, sorted; NULL: there are none. Messages do not repeat a
-- value, which may be private.
CREATE OR REPLACE FUNCTION {{schema}}.read_tags(tags jsonb) RETURNS bytea LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
	pair record;
	lines text[] := '{}';
BEGIN
	IF coalesce(jsonb_typeof(tags), 'null') = 'null' THEN
		RETURN NULL;
	ELSIF jsonb_typeof(tags) <> 'object' THEN
		PERFORM {{schema}}.bad_argument('tags is not a JSON object', 'Pass names and values, such as ''{"order": "1234"}''.');
	END IF;
	FOR pair IN SELECT t.key AS name, t.value #>> '{}' AS value, jsonb_typeof(t.value) AS kind FROM jsonb_each(tags) t LOOP
		IF pair.name !~ '^[A-Za-z0-9_.-]{1,32}$' OR octet_length(pair.name) <> length(pair.name) THEN
			PERFORM {{schema}}.bad_argument(format('the tag name %s is not 1 to 32 letters, digits, ''-'', ''_'' or ''.''', to_json(pair.name)),
				'Use a short name of ASCII characters, such as order.');
		ELSIF pair.kind <> 'string' THEN
			PERFORM {{schema}}.bad_argument(format('the value of tag %s is not a string', pair.name), 'Pass the value in quotes.');
		ELSIF octet_length(convert_to(pair.value, 'UTF8')) NOT BETWEEN 1 AND 128 THEN
			PERFORM {{schema}}.bad_argument(format('the value of tag %s has %s bytes; it must have 1 to 128', pair.name, octet_length(convert_to(pair.value, 'UTF8'))),
				'Leave the tag out, or use a shorter value.');
		ELSIF pair.value ~ '[\x01-\x1f\x7f]' OR encode(convert_to(pair.value, 'UTF8'), 'hex') ~ '^(..)*c2[89]' THEN
			PERFORM {{schema}}.bad_argument(format('the value of tag %s has control characters', pair.name), 'Leave them out.');
		END IF;
		lines := lines || (pair.name || '=' || pair.value);
	END LOOP;
	IF cardinality(lines) > 4 THEN
		PERFORM {{schema}}.bad_argument(format('%s tags, the limit is 4', cardinality(lines)), 'Keep those by which people search.');
	END IF;
	RETURN (SELECT convert_to(string_agg(line, E'\n' ORDER BY line COLLATE "C"), 'UTF8') FROM unnest(lines) AS line);
END $$;

-- Functions of earlier versions, which had no tags. Roles that could call them can call those below.
DROP FUNCTION IF EXISTS {{schema}}.claim_record(bytea, bytea, bytea, interval, interval, boolean, uuid, interval, interval);

-- claim_record takes a key for one attempt, or says what has become of it, and shows the whole record.
CREATE OR REPLACE FUNCTION {{schema}}.claim_record(scope bytea, id bytea, fingerprint bytea, lease_for interval, keep interval,
	take_over boolean, owner uuid, keep_key interval, keep_audit interval, tags jsonb DEFAULT NULL) RETURNS "{{schema}}".claimed LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	the_key CONSTANT uuid := {{schema}}.digest(claim_record.scope, claim_record.id);
	me CONSTANT uuid := coalesce(claim_record.owner, gen_random_uuid());
	lasts CONSTANT bigint := {{schema}}.micros(claim_record.lease_for);
	replay CONSTANT bigint := {{schema}}.micros(claim_record.keep);
	taken CONSTANT bigint := greatest(replay, {{schema}}.micros(claim_record.keep_key));
	audited CONSTANT bigint := greatest(replay, {{schema}}.micros(claim_record.keep_audit));
	asked CONSTANT bytea := coalesce(claim_record.fingerprint, '');
	take CONSTANT boolean := coalesce(claim_record.take_over, false);
	tagged CONSTANT bytea := {{schema}}.read_tags(claim_record.tags);
	r "{{schema}}".claims; -- the record
	time_read bigint;
	expired boolean;
	c "{{schema}}".claimed;
BEGIN
	IF (octet_length(claim_record.id) BETWEEN 1 AND 1024 AND octet_length(claim_record.scope) <= 1024) IS NOT TRUE THEN
		PERFORM {{schema}}.bad_argument('the id needs 1 to 1024 bytes, and the scope up to 1024', 'Pass both; a scope may be empty, and then all callers share one namespace.');
	ELSIF (lasts > 0 AND replay > 0) IS NOT TRUE THEN
		PERFORM {{schema}}.bad_argument('lease_for and keep must be positive', 'Leave them out, or pass intervals such as ''30 seconds'' and ''24 hours''.');
	ELSIF octet_length(asked) > 4096 THEN
		PERFORM {{schema}}.bad_argument('the fingerprint has more than 4096 bytes', 'Pass a digest of the request, such as sha256(request).');
	END IF;
	FOR round IN 1 .. 16 LOOP
		INSERT INTO {{schema}}.claims AS x
			(k, owner, fence, first_fence, claimed_at, ends_at, keep_replay, keep_key, keep_audit, sweep_at,
			attempt, steps, code, state, omitted, waiters, take_over, fingerprint, scope, id, tags)
		SELECT the_key, me, t.now, t.now, t.now, t.now + lasts, replay, taken, audited,
			(t.now + lasts + taken) / 60000000, 1, 0, 0, 1, false, false, take, asked, claim_record.scope, claim_record.id, tagged
		FROM (SELECT {{schema}}.clock()) AS t (now)
		ON CONFLICT DO NOTHING RETURNING x.* INTO r;
		IF FOUND THEN
			c.verdict := 'acquired';
			EXIT;
		END IF;
		-- The time is read before the row: a lease that is extended meanwhile is not taken for abandoned.
		time_read := {{schema}}.clock();
		SELECT x.* INTO r FROM {{schema}}.claims x WHERE x.k = the_key;
		CONTINUE WHEN NOT FOUND;
		expired := r.ends_at + r.keep_key <= time_read;
		IF NOT expired AND NOT (r.state = 1 AND r.owner = me) THEN
			c.verdict := CASE WHEN r.fingerprint <> asked THEN 'mismatch' WHEN r.state > 2 THEN 'done'
				WHEN r.state = 1 AND r.ends_at > time_read THEN 'in_flight' WHEN r.state = 1 AND NOT take THEN 'abandoned' END;
			IF c.verdict IS NOT NULL AND r.state = 1 AND r.ends_at <= time_read
				AND current_setting('transaction_isolation') <> 'read committed' THEN
				-- The transaction sees the past: this raises 40001 if the lease has been extended since.
				PERFORM FROM {{schema}}.claims x WHERE x.k = the_key FOR SHARE;
			END IF;
			EXIT WHEN c.verdict IS NOT NULL;
		END IF;
		IF expired AND (r.steps > 0 OR r.state > 2 AND r.ends_at + r.keep_audit > time_read) THEN
			WITH gone AS (
				DELETE FROM {{schema}}.claims x WHERE x.k = the_key AND x.ends_at + x.keep_key <= time_read RETURNING x.*
			), old_steps AS (
				DELETE FROM {{schema}}.steps s USING gone g
				WHERE g.steps > 0 AND s.k = g.k AND s.first_fence = g.first_fence AND NOT (g.state > 2 AND g.ends_at + g.keep_audit > time_read)
			)
			INSERT INTO {{schema}}.older SELECT g.* FROM gone g WHERE g.state > 2 AND g.ends_at + g.keep_audit > time_read;
			CONTINUE;
		END IF;
		UPDATE {{schema}}.claims x SET
			owner = me,
			fence = CASE WHEN x.state = 1 AND x.owner = me AND x.ends_at + x.keep_key > time_read THEN x.fence
				ELSE greatest(x.fence + 1, time_read) END,
			first_fence = CASE WHEN x.ends_at + x.keep_key > time_read THEN x.first_fence ELSE greatest(x.fence + 1, time_read) END,
			claimed_at = CASE WHEN x.ends_at + x.keep_key > time_read THEN x.claimed_at ELSE time_read END,
			ends_at = {{schema}}.clock() + lasts,
			keep_replay = replay, keep_key = taken, keep_audit = audited, sweep_at = (time_read + lasts + taken) / 60000000,
			attempt = CASE WHEN x.ends_at + x.keep_key <= time_read THEN 1
				WHEN x.state = 1 AND x.owner = me THEN x.attempt ELSE x.attempt + 1 END,
			steps = CASE WHEN x.ends_at + x.keep_key > time_read THEN x.steps ELSE 0 END,
			code = 0, state = 1, omitted = false, waiters = x.waiters AND x.ends_at + x.keep_key > time_read,
			take_over = take, fingerprint = asked, scope = claim_record.scope, id = claim_record.id,
			tags = CASE WHEN x.ends_at + x.keep_key > time_read THEN x.tags ELSE tagged END
		WHERE x.k = the_key AND CASE WHEN x.ends_at + x.keep_key <= time_read
				THEN x.steps = 0 AND (x.state < 3 OR x.ends_at + x.keep_audit <= time_read)
			ELSE x.state = 1 AND x.owner = me
				OR x.state = 1 AND x.ends_at <= time_read AND take AND x.fingerprint = asked
				OR x.state = 2 AND x.fingerprint = asked
			END
		RETURNING x.* INTO r;
		IF FOUND THEN
			c.verdict := 'acquired';
			EXIT;
		END IF;
	END LOOP;
	IF c.verdict IS NULL THEN
		RAISE EXCEPTION 'retrysafe: claim key %: others have changed the key each time', replace(the_key::text, '-', '')
			USING ERRCODE = 'serialization_failure', HINT = 'Run the statement again.';
	ELSIF c.verdict = 'acquired' THEN
		time_read := {{schema}}.clock();
		c.lease := {{schema}}.lease_token(the_key, me, r.fence);
	END IF;
	c.attempt := r.attempt;
	c.state := (ARRAY['pending', 'released', 'succeeded', 'failed'])[r.state];
	c.fence := r.fence;
	c.first_fence := r.first_fence;
	c.stored_fingerprint := r.fingerprint;
	c.age := {{schema}}.as_interval(time_read - r.claimed_at);
	IF r.state = 1 THEN
		c.lease_left := {{schema}}.as_interval(r.ends_at - time_read);
	END IF;
	IF r.state > 1 OR r.ends_at <= time_read THEN
		c.ended_age := CASE WHEN r.state > 1 THEN {{schema}}.as_interval(time_read - r.ends_at) END;
		c.replay_left := {{schema}}.as_interval(r.ends_at + r.keep_replay - time_read);
		c.key_left := {{schema}}.as_interval(r.ends_at + r.keep_key - time_read);
		c.audit_left := {{schema}}.as_interval(r.ends_at + r.keep_audit - time_read);
	END IF;
	IF r.state > 2 THEN
		c.code := r.code;
		c.failed := r.state = 4;
		c.omitted := r.omitted;
		SELECT a.meta, CASE WHEN NOT r.omitted THEN a.body END INTO c.meta, c.body FROM {{schema}}.results a
			WHERE a.ended_at = r.ends_at AND a.k = the_key AND r.ends_at + r.keep_replay > time_read;
		IF substring(c.meta FROM 1 FOR 7) = '\x687474702f310a'::bytea AND position('\x00'::bytea IN c.meta) = 0 THEN
			SELECT max(substring(line FROM 15)) FILTER (WHERE line LIKE 'Content-Type: %'),
				coalesce(array_agg(line ORDER BY n) FILTER (WHERE line LIKE '_%: %' AND line NOT LIKE 'Content-Type: %' AND left(line, 1) NOT IN ('>', '@')), '{}')
			INTO c.content_type, c.headers
			FROM unnest(string_to_array({{schema}}.as_text(substring(c.meta FROM 8)), E'\n')) WITH ORDINALITY AS lines (line, n);
		END IF;
	ELSIF r.steps > 0 THEN
		SELECT array_agg(s.name ORDER BY s.n), array_agg(s.data ORDER BY s.n) INTO c.step_names, c.step_data
			FROM {{schema}}.steps s WHERE s.k = the_key AND s.first_fence = r.first_fence;
	END IF;
	RETURN c;
EXCEPTION WHEN lock_not_available THEN
	c := NULL;
	c.verdict := 'in_flight';
	c.state := 'pending';
	c.lease_left := interval '1 second';
	RETURN c;
END $$;

-- claim is claim_record for services. It commits with the caller's transaction: call it in one of its own, before the
-- work begins. It waits half a second for a row that another transaction holds, such as that of a service between
-- complete and COMMIT, and then says in_flight. If the record is of another request, it shows none of its content.
CREATE OR REPLACE FUNCTION {{schema}}.claim(scope bytea, id bytea, fingerprint bytea DEFAULT '', lease_for interval DEFAULT '30 seconds',
	keep interval DEFAULT '24 hours', take_over boolean DEFAULT false, owner uuid DEFAULT NULL,
	keep_key interval DEFAULT NULL, keep_audit interval DEFAULT NULL, tags jsonb DEFAULT NULL) RETURNS "{{schema}}".claimed
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
	c := {{schema}}.claim_record(scope, id, fingerprint, lease_for, keep, take_over, owner, keep_key, keep_audit, tags);
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

CREATE OR REPLACE FUNCTION {{schema}}.claim(scope text, id text, fingerprint bytea DEFAULT '', lease_for interval DEFAULT '30 seconds',
	keep interval DEFAULT '24 hours', take_over boolean DEFAULT false, owner uuid DEFAULT NULL,
	keep_key interval DEFAULT NULL, keep_audit interval DEFAULT NULL, tags jsonb DEFAULT NULL) RETURNS "{{schema}}".claimed
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	RETURN {{schema}}.claim(convert_to(scope, 'UTF8'), convert_to(id, 'UTF8'), fingerprint, lease_for, keep, take_over, owner,
		keep_key, keep_audit, tags);
END $$;

-- claim had no tags in earlier versions. Whoever could call it can call that of this version.
DO $$ DECLARE
	kind text;
	old regprocedure;
	other oid;
BEGIN
	FOREACH kind IN ARRAY '{text,bytea}'::text[] LOOP
		old := to_regprocedure(format('{{schema}}.claim(%1$s, %1$s, bytea, interval, interval, boolean, uuid, interval, interval)', kind));
		CONTINUE WHEN old IS NULL;
		FOR other IN SELECT DISTINCT a.grantee FROM pg_proc p, aclexplode(p.proacl) a
			WHERE p.oid = old AND a.grantee NOT IN (0, p.proowner) LOOP
			EXECUTE format('GRANT EXECUTE ON FUNCTION {{schema}}.claim(%1$s, %1$s, bytea, interval, interval, boolean, uuid, interval, interval, jsonb) TO %2$s',
				kind, other::regrole);
		END LOOP;
		EXECUTE format('DROP FUNCTION %s', old);
	END LOOP;
END $$;

-- activity counts the keys that were first claimed within 24 hours, by the hour, from what their records say. It shows no
-- scope, key or answer, and calls no function of this schema, so that a role for monitoring needs no right but the one to
-- read it. The index of first_fence finds the rows: a first fence is not below the time of the first claim in
-- microseconds, and now() is constant within a statement. New columns come last.
CREATE OR REPLACE VIEW {{schema}}.activity AS
SELECT date_trunc('hour', to_timestamp(c.claimed_at / 1e6), 'UTC') AS hour,
	count(*) AS claims,
	count(*) FILTER (WHERE c.state = 3) AS completed,
	count(*) FILTER (WHERE c.state = 4) AS failed,
	count(*) FILTER (WHERE c.state = 2) AS released,
	count(*) FILTER (WHERE c.state = 1 AND c.ends_at > extract(epoch FROM now()) * 1000000) AS in_flight,
	count(*) FILTER (WHERE c.state = 1 AND c.ends_at <= extract(epoch FROM now()) * 1000000) AS abandoned,
	count(*) FILTER (WHERE c.attempt > 1) AS repeated,
	count(*) FILTER (WHERE c.omitted) AS omitted
FROM (
	SELECT claimed_at, ends_at, state, attempt, omitted FROM {{schema}}.claims
	WHERE first_fence >= ((extract(epoch FROM now()) - 86400) * 1000000)::bigint
	UNION ALL
	SELECT claimed_at, ends_at, state, attempt, omitted FROM {{schema}}.older
	WHERE first_fence >= ((extract(epoch FROM now()) - 86400) * 1000000)::bigint
) c
WHERE c.claimed_at >= ((extract(epoch FROM now()) - 86400) * 1000000)::bigint
GROUP BY 1;

-- Whoever has no right of its own may call none of them; what the view of the records needs may stay.
DO $$ DECLARE
	one regprocedure;
	part regclass;
BEGIN
	FOR one IN SELECT oid FROM pg_proc WHERE pronamespace = {{schema_text}}::regnamespace
		AND proname NOT IN ('clock', 'as_json', 'as_time') LOOP
		EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', one);
	END LOOP;
	-- The bodies of functions are read when they run, and have backslashes.
	FOR one IN SELECT oid FROM pg_proc WHERE pronamespace = {{schema_text}}::regnamespace AND prosecdef LOOP
		EXECUTE format('ALTER FUNCTION %s SET standard_conforming_strings = on', one);
	END LOOP;
	FOR part IN SELECT inhrelid FROM pg_inherits WHERE inhparent = '{{schema}}.results'::regclass
		UNION ALL SELECT '{{schema}}.holds'::regclass LOOP
		PERFORM {{schema}}.owner_only(part);
	END LOOP;
END $$;
