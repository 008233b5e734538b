-- Functions with which programs in any language save a message in their own transaction, as Save does in Go. They are
-- in the schema of the table and named after it. They run with their owner's rights, so that a role that may call them
-- needs no rights on the table.
DO $do$
DECLARE
	home name;
	outbox name;
BEGIN
	SELECT nspname, relname INTO STRICT home, outbox
	FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE c.oid = '{{messages}}'::regclass;
	EXECUTE replace(replace(replace($sql$
CREATE FUNCTION @save@(topic text, key text, payload bytea, aggregate text DEFAULT '', header jsonb DEFAULT '{}')
	RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
#variable_conflict use_column
DECLARE
	parts bytea[]; -- what the digest is over
	part bytea;
	rest integer;
	joined bytea := '';
BEGIN
	key := coalesce(nullif(key, ''), 'msg_' || replace(gen_random_uuid()::text, '-', ''));
	aggregate := coalesce(aggregate, '');
	header := coalesce(nullif(header, 'null'), '{}');
	IF topic IS NULL OR payload IS NULL THEN
		RAISE EXCEPTION '% must not be NULL', CASE WHEN topic IS NULL THEN 'topic' ELSE 'payload' END
			USING ERRCODE = 'RS006', HINT = 'An empty string is allowed.';
	ELSIF key !~ '^[\x21-\x7e]{1,255}$' THEN
		RAISE EXCEPTION 'key must have at most 255 characters of visible ASCII'
			USING ERRCODE = 'RS006', HINT = 'Use the digest of a longer key, or pass NULL for a random one.';
	ELSIF greatest(octet_length(convert_to(topic, 'UTF8')), octet_length(convert_to(aggregate, 'UTF8'))) > 255 THEN
		RAISE EXCEPTION 'topic and aggregate must have at most 255 bytes each'
			USING ERRCODE = 'RS006', HINT = 'Use a shorter name, such as a number or a digest.';
	ELSIF jsonb_typeof(header) <> 'object' OR jsonb_path_exists(header, 'strict $.* ? (@.type() <> "string")') THEN
		RAISE EXCEPTION 'header must be a JSON object whose values are strings'
			USING ERRCODE = 'RS006', HINT = 'Write numbers as text, such as {"version": "1"}.';
	END IF;
	-- See the trigger below.
	IF pg_current_xact_id_if_assigned() IS NULL THEN
		PERFORM set_config('retrysafe.saved_alone', statement_timestamp()::text, true);
	END IF;
	-- As digest in message.go: each part after its length, in groups of 7 bits, the lowest first.
	parts := ARRAY[convert_to(topic, 'UTF8'), convert_to(aggregate, 'UTF8'), payload] || (
		SELECT array_agg(convert_to(p.part, 'UTF8') ORDER BY convert_to(h.name, 'UTF8'), p.n)
		FROM jsonb_each_text(header) AS h (name, value), LATERAL (VALUES (1, h.name), (2, h.value)) AS p (n, part));
	FOREACH part IN ARRAY parts LOOP
		rest := octet_length(part);
		WHILE rest > 127 LOOP
			joined := joined || set_byte('\x00', 0, rest % 128 + 128);
			rest := rest / 128;
		END LOOP;
		joined := joined || set_byte('\x00', 0, rest) || part;
	END LOOP;
	-- As save.sql.
	INSERT INTO @messages@ AS m
		(key, topic, aggregate, header, body, digest, saved_by, saved_at, due_at, owner, tries, state, error)
	VALUES (convert_to(key, 'UTF8'), parts[1], parts[2],
		CASE WHEN header = '{}' THEN '' ELSE convert_to(header::text, 'UTF8') END,
		payload, substr(sha256(joined), 1, 16), '', {{clock}}, {{clock}}, '', 0, 1, '')
	ON CONFLICT (key) DO UPDATE SET key = m.key
	WHERE m.digest = excluded.digest OR m.saved_by <> excluded.saved_by;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'another message has this key'
			USING ERRCODE = 'RS007', HINT = 'Give each message a key of its own. Nothing was saved: roll back.';
	END IF;
END $body$;
CREATE FUNCTION @save@(topic text, key text, payload text, aggregate text DEFAULT '', header jsonb DEFAULT '{}')
	RETURNS void LANGUAGE sql VOLATILE RETURN @save@(topic, key, convert_to(payload, 'UTF8'), aggregate, header);
CREATE FUNCTION @save@(topic text, key text, payload jsonb, aggregate text DEFAULT '', header jsonb DEFAULT '{}')
	RETURNS void LANGUAGE sql VOLATILE RETURN @save@(topic, key, payload::text, aggregate, header);
-- Refuses a message that was saved outside of a transaction block. The trigger runs when the transaction ends: outside
-- of a block that belongs to the statement of the call. A transaction that wrote something before is no such case.
CREATE FUNCTION @alone@() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
	IF current_setting('retrysafe.saved_alone', true) = statement_timestamp()::text THEN
		RAISE EXCEPTION 'a message was saved outside of a transaction'
			USING ERRCODE = 'RS005', HINT = 'Execute BEGIN, the write that the message is about, this function, and COMMIT.';
	END IF;
	RETURN NULL;
END $body$;
CREATE CONSTRAINT TRIGGER saved_alone AFTER INSERT ON @messages@ DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
	WHEN (current_setting('retrysafe.saved_alone', true) = statement_timestamp()::text) EXECUTE FUNCTION @alone@();
REVOKE ALL ON FUNCTION @alone@(), @save@(text, text, text, text, jsonb), @save@(text, text, jsonb, text, jsonb),
	@save@(text, text, bytea, text, jsonb) FROM PUBLIC;
$sql$,
		'@messages@', format('%I.%I', home, outbox)),
		'@save@', format('%I.%I', home, outbox || '_save')),
		'@alone@', format('%I.%I', home, outbox || '_saved_alone'));
END $do$
