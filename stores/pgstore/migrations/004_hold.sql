-- oldest: 1
-- hold, and what a review of the functions has found.

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

-- It catches errors, which a parallel query cannot: the view of the records failed once there were enough of them.
ALTER FUNCTION {{schema}}.as_json(bytea) PARALLEL UNSAFE;

-- end_attempt itself sees now what they were for.
DROP FUNCTION IF EXISTS {{schema}}.needs_transaction(text);
DROP TABLE IF EXISTS {{schema}}.transaction_checks;
DROP FUNCTION IF EXISTS {{schema}}.check_transaction();
