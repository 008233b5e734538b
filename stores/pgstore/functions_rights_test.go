package pgstore

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// serviceDatabase makes the schema keys of an owner, and returns how the superuser and a service with the grants alone
// connect to its database. The service may create schemas and temporary tables there, as services often may.
func serviceDatabase(t *testing.T) (super, service *pgxpool.Pool) {
	t.Helper()
	pg := shared.Get(t)
	database := pg.Database(t)
	owner, _ := stranger(t, database, "owner")
	role, url := stranger(t, database, "service")
	script, err := Script(ScriptOptions{Schema: "keys", Owner: owner, ServiceRole: role})
	if err != nil {
		t.Fatal(err)
	}
	pg.PsqlAt(t, database, script)
	pg.PsqlAt(t, database, "GRANT CREATE ON DATABASE "+databaseOf(t, database)+" TO "+pgx.Identifier{role}.Sanitize())
	return openPool(t, database), openPool(t, url)
}

// one reads a value with a statement.
func one[T any](t *testing.T, pool *pgxpool.Pool, text string, args ...any) (v T) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), text, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// inBlock runs a statement in a transaction block that has written something, as a service does.
func inBlock(t *testing.T, pool *pgxpool.Pool, text string, args ...any) error {
	t.Helper()
	return pgx.BeginTxFunc(t.Context(), pool, pgx.TxOptions{BeginQuery: "BEGIN; SELECT pg_current_xact_id()"}, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), text, args...)
		return err
	})
}

// The functions that a service may call are those of the reference, docs/sql-functions.md, and three of which the view
// of the records is made; all the others, and every table, are none of its business.
//
// Seen to fail with the REVOKE at the end of functions.sql taken out.
func TestServiceMayCallThePublicFunctions(t *testing.T) {
	t.Parallel()
	super, service := serviceDatabase(t)
	const query = `SELECT proname, count(*) FROM pg_proc WHERE pronamespace = 'keys'::regnamespace
		AND has_function_privilege(oid, 'EXECUTE') GROUP BY 1 ORDER BY 1`
	rows, err := service.Query(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (line string, err error) {
		var name string
		var n int
		err = row.Scan(&name, &n)
		return fmt.Sprint(name, " ", n), err
	})
	want := []string{
		"as_json 1", "as_time 1", "child_key 1", "claim 2", "clock 1", "complete 3", "extend 1", "fail 3",
		"hold 1", "release 1", "save_step 2", "step 1",
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("a service may call %v, %v; want %v", got, err, want)
	}
	lease := one[string](t, service, "SELECT lease FROM keys.claim('shop', 'order-17')")
	for _, text := range []string{
		"SELECT keys.extend($1, '1 minute')", "SELECT keys.save_step($1, 'charge', 'ch_1')",
		"SELECT keys.step($1, 'charge')", "SELECT keys.child_key($1, 'capture')",
		"SELECT keys.hold($1), keys.complete($1, '{}')",
	} {
		if err := inBlock(t, service, text, lease); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for id, text := range map[string]string{"fails": "SELECT keys.fail($1, '{}')", "free": "SELECT keys.release($1)"} {
		lease := one[string](t, service, "SELECT lease FROM keys.claim('shop', $1)", id)
		if err := inBlock(t, service, text, lease); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	if n := one[int](t, super, "SELECT count(*) FROM keys.claims WHERE state > 2"); n != 2 {
		t.Errorf("%d keys have ended, want 2", n)
	}
}

// Everything else is refused, for want of rights.
func TestServiceMayDoNothingElse(t *testing.T) {
	t.Parallel()
	super, service := serviceDatabase(t)
	lease := one[string](t, service, "SELECT lease FROM keys.claim('shop', 'order-17')")
	if err := inBlock(t, service, "SELECT keys.complete($1, 'secret')", lease); err != nil {
		t.Fatal(err)
	}
	if _, err := super.Exec(t.Context(), "ANALYZE"); err != nil {
		t.Fatal(err)
	}
	const tables = "SELECT array_agg(relname::text) FROM pg_class WHERE relnamespace = 'keys'::regnamespace AND relkind IN ('r', 'p')"
	var forbidden []string
	for _, table := range one[[]string](t, super, tables) {
		for _, text := range []string{
			"SELECT * FROM %s", "INSERT INTO %s DEFAULT VALUES", "DELETE FROM %s", "COPY %s TO STDOUT",
			"LOCK TABLE %s IN ACCESS SHARE MODE", "CREATE TABLE mine (LIKE %s INCLUDING STATISTICS)",
			"CREATE TRIGGER mine BEFORE INSERT ON %s EXECUTE FUNCTION suppress_redundant_updates_trigger()",
			"CREATE RULE mine AS ON INSERT TO %s DO ALSO SELECT 1", "ALTER TABLE %s OWNER TO CURRENT_USER",
			"GRANT SELECT ON %s TO CURRENT_USER", "DROP TABLE %s",
		} {
			forbidden = append(forbidden, fmt.Sprintf(text, "keys."+table))
		}
	}
	owner := one[string](t, super, "SELECT nspowner::regrole::text FROM pg_namespace WHERE nspname = 'keys'")
	forbidden = append(forbidden,
		"SELECT * FROM keys.activity", "SELECT * FROM keys.records", "COPY (TABLE keys.records) TO STDOUT", "ALTER VIEW keys.records OWNER TO CURRENT_USER",
		"UPDATE keys.claims SET state = 3", "UPDATE keys.results SET body = ''", "TRUNCATE keys.results",
		"SELECT k FROM keys.claims FOR UPDATE", "WITH x AS (SELECT keys.clock()) SELECT body FROM x, keys.results",
		"CREATE TABLE keys.mine ()", "CREATE FUNCTION keys.clock(integer) RETURNS integer RETURN $1",
		"CREATE OR REPLACE FUNCTION keys.micros(i interval) RETURNS bigint LANGUAGE sql RETURN 1",
		"ALTER FUNCTION keys.release(text) SECURITY INVOKER", "ALTER FUNCTION keys.release(text) RESET search_path",
		"DROP FUNCTION keys.release(text)", "GRANT EXECUTE ON FUNCTION keys.micros(interval) TO CURRENT_USER",
		"ALTER SCHEMA keys RENAME TO mine", "DROP SCHEMA keys CASCADE",
		"SET ROLE "+owner, "SET SESSION AUTHORIZATION "+owner, "GRANT "+owner+" TO CURRENT_USER",
		"REASSIGN OWNED BY "+owner+" TO CURRENT_USER", "ALTER ROLE "+owner+" PASSWORD 'x'",
		"SELECT keys.add_days(0, 1)", "SELECT keys.micros('1 second')", "SELECT keys.digest('', '')",
		"SELECT keys.lease_token(gen_random_uuid(), gen_random_uuid(), 1)",
		"SELECT keys.claim_record('', 'k', '', '1 s', '1 s', false, NULL, NULL, NULL, NULL)",
		"SELECT keys.read_tags('{}')", "SELECT keys.tag_lines('')", "SELECT keys.end_attempt('', '', 3::smallint, 200, false, '', '', 1, 1, 1)",
		"SELECT keys.end_http('', '', 3::smallint, '', 200, '', '{}', NULL)",
		"SELECT keys.check_hold()", "SELECT keys.mark_ended(gen_random_uuid(), 1)", "SELECT keys.durable()",
		"SELECT keys.owner_only('keys.claims')", "SELECT keys.lease_lost(NULL, '')",
	)
	for _, text := range forbidden {
		err := inBlock(t, service, text)
		if sqlState(err) != insufficientRights {
			t.Errorf("%s: got %v, want that permission is denied", text, err)
		}
	}
	// The statistics of the planner have samples of the tables.
	if n := one[int](t, service, "SELECT count(*) FROM pg_stats WHERE schemaname = 'keys'"); n != 0 {
		t.Errorf("a service can read %d columns of statistics", n)
	}
}

// Rights that a service has been given too many of are taken back with its grants, and those that ALTER DEFAULT
// PRIVILEGES gives are taken from each new partition. A role that owns the tables keeps them.
//
// Seen to fail with each REVOKE taken out of service_grants.sql, with owner_only taken out of add_days, with the
// condition about the owner taken out, and with older and the partitions taken out of wide_rights.sql.
func TestServiceLosesWhatItHadTooMuch(t *testing.T) {
	t.Parallel()
	super, service := serviceDatabase(t)
	role := one[string](t, service, "SELECT quote_ident(current_user)")
	owner := one[string](t, super, "SELECT nspowner::regrole::text FROM pg_namespace WHERE nspname = 'keys'")
	for _, text := range []string{
		"GRANT ALL ON ALL TABLES IN SCHEMA keys TO " + role, "GRANT CREATE ON SCHEMA keys TO " + role,
		"ALTER DEFAULT PRIVILEGES FOR ROLE " + owner + " GRANT ALL ON TABLES TO " + role + ", PUBLIC",
		"DO $$ DECLARE part regclass; BEGIN FOR part IN SELECT inhrelid FROM pg_inherits WHERE inhparent = 'keys.results'::regclass " +
			"ORDER BY inhrelid OFFSET 4 LOOP EXECUTE 'DROP TABLE ' || part; END LOOP; END $$", // some are made anew, and some are there
	} {
		if _, err := super.Exec(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	if one[int](t, service, "SELECT count(*) FROM keys.claims") != 0 {
		t.Fatal("there are claims")
	}
	name := one[string](t, service, "SELECT current_user::text")
	s := openOn(t, super, Options{Schema: "keys"})
	risks := func() string {
		t.Helper()
		risks, err := s.Risks(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(risks)
	}
	if !strings.Contains(risks(), "rights of role "+role) {
		t.Errorf("the risks do not name the service: %s", risks())
	}
	if _, err := Migrate(t.Context(), super, MigrateOptions{Schema: "keys", ServiceRole: name}); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"older", one[string](t, super, "SELECT min(inhrelid::regclass::text) FROM pg_inherits WHERE "+
		"inhparent = 'keys.results'::regclass")} {
		table = strings.TrimPrefix(table, "keys.")
		for _, right := range []string{"SELECT", "SELECT (k)"} {
			if _, err := super.Exec(t.Context(), "GRANT "+right+" ON keys."+table+" TO "+role); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(risks(), "rights of role "+role) {
				t.Errorf("the risks do not name a right to %s of %s: %s", right, table, risks())
			}
			if _, err := super.Exec(t.Context(), "REVOKE "+right+" ON keys."+table+" FROM "+role); err != nil {
				t.Fatal(err)
			}
		}
	}
	const may = "SELECT coalesce(string_agg(relname, ', '), '') FROM pg_class WHERE relnamespace = 'keys'::regnamespace AND " +
		"relkind IN ('r', 'p', 'v') AND has_table_privilege(oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')"
	if got := one[string](t, service, may); got != "" {
		t.Errorf("the service still has rights to %s", got)
	}
	if one[bool](t, service, "SELECT has_schema_privilege('keys', 'CREATE')") {
		t.Error("the service may still create")
	}
	if n := one[int](t, super, "SELECT count(*) FROM pg_inherits WHERE inhparent = 'keys.results'::regclass"); n < daysAhead {
		t.Errorf("%d days, want %d", n, daysAhead)
	}
	if strings.Contains(risks(), "rights of role") {
		t.Errorf("without wide rights: %s", risks())
	}
	if _, err := Migrate(t.Context(), super, MigrateOptions{Schema: "keys", ServiceRole: strings.Trim(owner, `"`)}); err != nil {
		t.Fatal(err)
	}
	_ = one[string](t, service, "SELECT lease FROM keys.claim('shop', 'order-17')")
}

// The functions find nothing of the caller's in place of what they mean, and run nothing of it with their owner's
// rights: neither by search_path, nor by temporary tables, operators, casts or settings.
//
// Seen to fail with SET search_path taken out of the functions.
func TestServiceCannotBendTheFunctions(t *testing.T) {
	t.Parallel()
	super, service := serviceDatabase(t)
	conn, err := service.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	const traps = `CREATE SCHEMA traps;
		CREATE TABLE traps.sprung (who name, what text);
		GRANT ALL ON SCHEMA traps TO PUBLIC; GRANT ALL ON traps.sprung TO PUBLIC;
		CREATE FUNCTION traps.spring(what text) RETURNS void LANGUAGE sql AS
			'INSERT INTO traps.sprung VALUES (current_user, what)';
		CREATE FUNCTION traps.octet_length(bytea) RETURNS integer LANGUAGE sql AS
			'SELECT traps.spring(''octet_length''); SELECT 1';
		CREATE FUNCTION traps.sha256(bytea) RETURNS bytea LANGUAGE sql AS
			'SELECT traps.spring(''sha256''); SELECT ''''::bytea';
		CREATE FUNCTION traps.encode(bytea, text) RETURNS text LANGUAGE sql AS
			'SELECT traps.spring(''encode''); SELECT ''''';
		CREATE FUNCTION traps.same(uuid, uuid) RETURNS boolean LANGUAGE sql AS
			'SELECT traps.spring(''=''); SELECT true';
		CREATE FUNCTION traps.pg_notify(text, text) RETURNS void LANGUAGE sql AS
			'SELECT traps.spring(''pg_notify'')';
		CREATE OPERATOR traps.= (LEFTARG = uuid, RIGHTARG = uuid, FUNCTION = traps.same);
		CREATE TEMP TABLE claims (k uuid, state smallint); CREATE TEMP TABLE results (k uuid);
		CREATE FUNCTION pg_temp.octet_length(bytea) RETURNS integer LANGUAGE sql AS
			'SELECT traps.spring(''temporary''); SELECT 1';
		CREATE TYPE pg_temp.interval AS (i integer);
		SET search_path = traps, pg_temp, pg_catalog;
		SET transform_null_equals = on; SET default_tablespace = ''; SET enable_indexscan = off; SET lock_timeout = 1`
	if _, err := conn.Exec(t.Context(), traps, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	var lease string
	if err := conn.QueryRow(t.Context(), "SELECT lease FROM keys.claim('shop', 'order-17')").Scan(&lease); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"SELECT keys.extend($1, '1 minute')", "SELECT keys.save_step($1, 'charge', 'ch_1')",
		"SELECT keys.step($1, 'charge')", "SELECT keys.child_key($1, 'capture')",
		"SELECT keys.hold($1), keys.complete($1, '{}', headers => ARRAY['Location: /17'])",
	} {
		err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), text, lease)
			return err
		})
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	if n := one[int](t, super, "SELECT count(*) FROM traps.sprung"); n != 0 {
		t.Errorf("%d times something of the service's ran inside of a function, as %s", n,
			one[string](t, super, "SELECT string_agg(DISTINCT who || ' ' || what, ', ') FROM traps.sprung"))
	}
	if n := one[int](t, super, "SELECT count(*) FROM keys.claims WHERE state = 3"); n != 1 {
		t.Errorf("%d keys have ended, want 1", n)
	}
}

// refusalOf is all that the server says of an error.
func refusalOf(err error) (state, text string) {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return "", fmt.Sprint(err)
	}
	return pg.Code, strings.Join([]string{pg.Message, pg.Detail, pg.Hint, pg.Where, pg.InternalQuery}, "\n")
}
