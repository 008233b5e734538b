-- oldest: 1
ALTER TABLE {{schema}}.migrations ADD COLUMN IF NOT EXISTS oldest integer;

-- add_days makes the partitions of days that have none: days counted from 1970, in UTC. It runs with its owner's
-- rights, so that the role of a store needs none to create tables; therefore it makes those of the next two weeks and
-- no others, whatever its arguments are. Attaching a table locks no other session out, unlike creating a partition.
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
		EXECUTE format('ALTER TABLE {{schema}}.%I ADD CONSTRAINT day CHECK (ended_at >= %s AND ended_at < %s)',
			part, day * day_length, (day + 1) * day_length);
		EXECUTE format('ALTER TABLE {{schema}}.results ATTACH PARTITION {{schema}}.%I FOR VALUES FROM (%s) TO (%s)',
			part, day * day_length, (day + 1) * day_length);
		EXECUTE format('ALTER TABLE {{schema}}.%I DROP CONSTRAINT day', part);
		added := added + 1;
	END LOOP;
	RETURN added;
END $$;
