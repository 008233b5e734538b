-- One migration at a time. What exists already is not made again, so that no right to make it is needed.
SELECT pg_advisory_xact_lock(hashtext('retrysafe migrate {{schema}}'));
DO $$ BEGIN
	IF to_regnamespace({{schema_text}}) IS NULL THEN
		CREATE SCHEMA {{schema}};
	END IF;
	IF to_regclass('{{schema}}.migrations') IS NULL THEN
		CREATE TABLE {{schema}}.migrations (
			version integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now(),
			oldest integer); -- the version that a program must know at least to work with this one
	END IF;
END $$;
