-- The body of the function is read when it runs, and has backslashes: a session with standard_conforming_strings = off could
-- not save. The other two are read here.
DO $do$
DECLARE
	saving regprocedure;
BEGIN
	SELECT p.oid INTO STRICT saving
	FROM pg_proc AS p JOIN pg_class AS c ON p.pronamespace = c.relnamespace AND p.proname = (c.relname || '_save')::name
	WHERE c.oid = '{{messages}}'::regclass AND p.prosecdef;
	EXECUTE format('ALTER FUNCTION %s SET standard_conforming_strings = on', saving);
END $do$;
