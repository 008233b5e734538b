-- An existing schema or table is not created again, because CREATE needs privileges even then.
DO $$ BEGIN
	IF {{schema}} <> '' AND to_regnamespace({{schema}}) IS NULL THEN
		EXECUTE format('CREATE SCHEMA %I', {{schema}});
	END IF;
	IF to_regclass('{{migrations}}') IS NULL THEN
		CREATE TABLE {{migrations}} (version integer PRIMARY KEY, name text NOT NULL);
	END IF;
END $$;
