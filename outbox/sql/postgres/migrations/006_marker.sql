-- A payload that begins as an encrypted body does (sealed.Marker) could not be read again: its relay would retry it until
-- it is a dead letter.
DO $do$
DECLARE
	saving regprocedure;
BEGIN
	SELECT p.oid INTO STRICT saving
	FROM pg_proc AS p JOIN pg_class AS c ON p.pronamespace = c.relnamespace AND p.proname = (c.relname || '_save')::name
	WHERE c.oid = '{{messages}}'::regclass AND p.prosecdef;
	EXECUTE replace(pg_get_functiondef(saving), 'ELSIF key !~', $sql$ELSIF substr(payload, 1, 11) = decode('f572657472797361666501', 'hex') THEN
		RAISE EXCEPTION 'payload begins with the bytes that mark an encrypted message'
			USING ERRCODE = 'RS006', HINT = 'Save it in another form, such as base64.';
	ELSIF key !~$sql$);
END $do$;
