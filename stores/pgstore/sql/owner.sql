-- All of it belongs to {{owner}}, which also drops the partitions of past days. What another role has made is handed
-- over.
SELECT set_config('retrysafe.owner', {{owner_text}}, true);
DO $$ DECLARE
	owner CONSTANT text := current_setting('retrysafe.owner');
	owner_id CONSTANT oid := (SELECT oid FROM pg_roles WHERE rolname = owner);
	schema_id CONSTANT oid := to_regnamespace({{schema_text}});
	part text;
BEGIN
	IF schema_id IS NULL THEN
		EXECUTE format('CREATE SCHEMA {{schema}} AUTHORIZATION %I', owner);
	END IF;
	FOR part IN
		SELECT 'SCHEMA {{schema}}' FROM pg_namespace WHERE oid = schema_id AND nspowner <> owner_id
		UNION ALL
		SELECT 'TABLE ' || oid::regclass FROM pg_class
			WHERE relnamespace = schema_id AND relkind IN ('r', 'p', 'v') AND relowner <> owner_id
		UNION ALL
		SELECT 'TYPE ' || reltype::regtype FROM pg_class
			WHERE relnamespace = schema_id AND relkind = 'c' AND relowner <> owner_id
		UNION ALL
		SELECT 'FUNCTION ' || oid::regprocedure FROM pg_proc WHERE pronamespace = schema_id AND proowner <> owner_id
	LOOP
		EXECUTE format('ALTER %s OWNER TO %I', part, owner);
	END LOOP;
END $$;
SET LOCAL ROLE {{owner}};
