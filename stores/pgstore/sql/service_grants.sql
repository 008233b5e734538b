-- What {{role}} needs to call the functions: it claims keys, and ends the attempts whose lease tokens it has. It has no
-- right to any table: what it has been given too much of, such as by ALTER DEFAULT PRIVILEGES, is taken back.
DO $grants$ DECLARE
	part regclass;
BEGIN
	IF NOT EXISTS (SELECT FROM pg_class c JOIN pg_roles r ON r.oid = c.relowner
		WHERE c.oid = '{{schema}}.claims'::regclass AND r.rolname = {{role_text}}) THEN
		REVOKE ALL ON {{schema}}.claims, {{schema}}.older, {{schema}}.steps, {{schema}}.results, {{schema}}.locks,
			{{schema}}.migrations, {{schema}}.holds, {{schema}}.progress, {{schema}}.blocks, {{schema}}.tags,
			{{schema}}.sightings, {{schema}}.records, {{schema}}.activity
			FROM {{role}} CASCADE;
		FOR part IN SELECT inhrelid FROM pg_inherits WHERE inhparent = '{{schema}}.results'::regclass LOOP
			EXECUTE format('REVOKE ALL ON %s FROM %I CASCADE', part, {{role_text}});
		END LOOP;
		REVOKE CREATE ON SCHEMA {{schema}} FROM {{role}};
	END IF;
END $grants$;
GRANT USAGE ON SCHEMA {{schema}} TO {{role}};
GRANT EXECUTE ON FUNCTION
	{{schema}}.claim(text, text, bytea, interval, interval, boolean, uuid, interval, interval, jsonb),
	{{schema}}.claim(bytea, bytea, bytea, interval, interval, boolean, uuid, interval, interval, jsonb),
	{{schema}}.hold(text),
	{{schema}}.extend(text, interval),
	{{schema}}.step(text, text),
	{{schema}}.save_step(text, text, text),
	{{schema}}.save_step(text, text, bytea),
	{{schema}}.complete(text, text, integer, text, text[], interval),
	{{schema}}.complete(text, jsonb, integer, text, text[], interval),
	{{schema}}.complete(text, bytea, integer, text, text[], interval),
	{{schema}}.fail(text, text, integer, text, text[], interval),
	{{schema}}.fail(text, jsonb, integer, text, text[], interval),
	{{schema}}.fail(text, bytea, integer, text, text[], interval),
	{{schema}}.release(text),
	{{schema}}.child_key(text, text)
	TO {{role}};
