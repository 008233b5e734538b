//go:build unix

package store

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/clitest"
)

// Seen to fail with the advisory lock taken out of prepare.sql.
func TestMigrateFromManyProcessesAtOnce(t *testing.T) {
	t.Parallel()
	url := clitest.Postgres.Get(t).Database(t)
	before := clitest.Run(t, "migrate", "status", "--store="+url)
	clitest.Want(t, "exit code", before.Code, cli.ExitFailed)
	clitest.WantText(t, "status", before.Stdout+before.Stderr, "version 0 applied", "retrysafe migrate up --store")
	all := make([]clitest.Result, 8)
	var done sync.WaitGroup
	for i := range all {
		done.Go(func() { all[i] = clitest.Run(t, "migrate", "up", "--store", url) })
	}
	done.Wait()
	applied := 0
	for _, r := range all {
		clitest.Want(t, "exit code", r.Code, cli.ExitOK)
		clitest.WantText(t, "output", r.Stdout+r.Stderr, "schema retrysafe is up to date")
		applied += strings.Count(r.Stdout, "applied 001_records")
	}
	clitest.Want(t, "processes that applied the first migration", applied, 1)
	after := clitest.Run(t, "migrate", "status", "--store="+url)
	clitest.Want(t, "exit code", after.Code, cli.ExitOK)
}

func TestMigrateRefusesANewerSchema(t *testing.T) {
	t.Parallel()
	url := clitest.Migrated(t)
	clitest.Postgres.Get(t).PsqlAt(t, url, "INSERT INTO retrysafe.migrations VALUES (99, 'later')")
	for _, args := range [][]string{
		{"migrate", "up"},
		{"migrate", "status"},
		{"sweep"},
		{"proxy", "--upstream=http://127.0.0.1:1", "--listen=127.0.0.1:0"},
	} {
		got := clitest.Run(t, append(args, "--store="+url)...)
		clitest.Want(t, "exit code", got.Code, cli.ExitFailed)
		clitest.WantText(t, "output", got.Stderr, "newer")
	}
	// which programs for version 1 can work with
	clitest.Postgres.Get(t).PsqlAt(t, url, "UPDATE retrysafe.migrations SET oldest = 1 WHERE version = 99")
	for _, args := range [][]string{{"migrate", "up"}, {"migrate", "status"}, {"sweep"}} {
		got := clitest.Run(t, append(args, "--store="+url)...)
		clitest.Want(t, "exit code: "+got.Stderr, got.Code, cli.ExitOK)
	}
}

// The script is for people and psql, and comes to the same as migrate up.
func TestMigratePrintForPsql(t *testing.T) {
	t.Parallel()
	pg := clitest.Postgres.Get(t)
	some := retrysafe.NewOwner().String() // roles are shared by all databases of a server
	url, app, ops := pg.Database(t), "app_"+some, "ops_"+some
	pg.Psql(t, "CREATE ROLE "+app+" LOGIN; CREATE ROLE "+ops+" LOGIN")
	t.Cleanup(func() { pg.Psql(t, "DROP ROLE IF EXISTS "+app+"; DROP ROLE IF EXISTS "+ops) })
	t.Cleanup(func() { pg.PsqlAt(t, url, "DROP OWNED BY "+app+"; DROP OWNED BY "+ops) })
	script := clitest.Run(t, "migrate", "print", "--schema=keys", "--role="+app, "--maintenance-role="+ops)
	clitest.Want(t, "exit code", script.Code, cli.ExitOK)
	pg.PsqlAt(t, url, script.Stdout)

	asApp, asOps := clitest.WithParam(clitest.AsUser(url, app), "schema=keys"),
		clitest.WithParam(clitest.AsUser(url, ops), "schema=keys")
	status := clitest.Run(t, "migrate", "status", "--store", asApp)
	clitest.Want(t, "exit code: "+status.Stderr, status.Code, cli.ExitOK)
	again := clitest.Run(t, "migrate", "up", "--store", asOps)
	clitest.Want(t, "exit code: "+again.Stderr, again.Code, cli.ExitOK)
	clitest.Want(t, "applied again", strings.Contains(again.Stdout, "applied"), false)

	up := clitest.NewAPI(t)
	p := clitest.StartProxy(t, "--upstream="+up.URL, "--store="+asApp)
	clitest.Want(t, "status", p.MustPost("k", "amount=1").StatusCode, 201)
	clitest.Want(t, "replayed", p.MustPost("k", "amount=1").Header.Get("Idempotent-Replayed"), "true")
	refused := clitest.Run(t, "migrate", "up", "--store", clitest.AsUser(url, app))
	clitest.Want(t, "exit code", refused.Code, cli.ExitFailed)
	clitest.WantText(t, "output", refused.Stderr, "permission denied")
}

// The quick start of docs/postgres.md: the owner of the database runs one command, and the proxy works as another
// role. The script does the same, in any order, as often as it is run.
//
// Seen to fail with Role left out of what migrateUp passes to pgstore.Migrate, and with the case of insufficientRights
// taken out of Postgres.Explain.
func TestQuickStartWithTwoRoles(t *testing.T) {
	t.Parallel()
	pg := clitest.Postgres.Get(t)
	some := retrysafe.NewOwner().String()
	url, app, owner := pg.Database(t), "app_"+some, "owner_"+some
	pg.Psql(t, "CREATE ROLE "+app+" LOGIN; CREATE ROLE "+owner+" LOGIN")
	t.Cleanup(func() { pg.Psql(t, "DROP ROLE "+app+"; DROP ROLE "+owner) })
	t.Cleanup(func() { pg.PsqlAt(t, url, "DROP OWNED BY "+app+"; DROP OWNED BY "+owner) })
	pg.PsqlAt(t, url, "DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO "+owner+"', current_database()); END $$")
	upstream := clitest.NewAPI(t)
	migrate := func(args ...string) {
		t.Helper()
		got := clitest.Run(t, append([]string{"migrate", "up", "--store=" + clitest.AsUser(url, owner)}, args...)...)
		clitest.Want(t, "exit code: "+got.Stderr, got.Code, cli.ExitOK)
	}
	migrate() // without --role: the proxy's error says what to run
	refused := clitest.Run(t, "proxy", "--upstream="+upstream.URL, "--listen=127.0.0.1:0",
		"--store="+clitest.AsUser(url, app))
	clitest.Want(t, "exit code", refused.Code, cli.ExitFailed)
	clitest.WantText(t, "output", refused.Stderr, "permission denied", "retrysafe migrate up --store URL --role "+app,
		"it can read all answers then", "role of a service")
	script := clitest.Run(t, "migrate", "print", "--role="+app)
	for n, grant := range []func(){
		func() { migrate("--role=" + app) },
		func() { migrate("--role=" + app) },
		func() { pg.PsqlAt(t, clitest.AsUser(url, owner), script.Stdout) },
		func() {
			pg.PsqlAt(t, url, "DROP SCHEMA retrysafe CASCADE")
			pg.PsqlAt(t, clitest.AsUser(url, owner), script.Stdout)
		},
		func() { migrate("--role=" + app) },
	} {
		grant()
		p := clitest.StartProxy(t, "--upstream="+upstream.URL, "--store="+clitest.AsUser(url, app))
		clitest.Want(t, "status", p.MustPost(fmt.Sprint("k", n), "amount=1").StatusCode, 201)
		p.Signal(syscall.SIGTERM)
		clitest.Want(t, "exit code", p.Exit(), cli.ExitOK)
	}
}

// A service's role calls the functions and sees no table, whether migrate up or the script has granted it that; doing
// so twice changes nothing. What the role can read nevertheless is warned about.
//
// Seen to fail with Warnings returning nothing, and without REVOKE in what ServiceRole grants.
func TestMigrateForAService(t *testing.T) {
	t.Parallel()
	pg := clitest.Postgres.Get(t)
	for _, how := range []string{"up", "print"} {
		service, url := "service_"+retrysafe.NewOwner().String(), pg.Database(t)
		pg.Psql(t, "CREATE ROLE "+service+" LOGIN")
		t.Cleanup(func() { pg.Psql(t, "DROP ROLE "+service) })
		t.Cleanup(func() { pg.PsqlAt(t, url, "DROP OWNED BY "+service) })
		for range 2 {
			got := clitest.Run(t, "migrate", how, "--store="+url, "--service-role="+service)
			clitest.Want(t, "exit code: "+got.Stderr, got.Code, cli.ExitOK)
			if how == "print" {
				pg.PsqlAt(t, url, got.Stdout)
			} else {
				clitest.WantText(t, "output", got.Stdout, "role "+service+" may call the functions")
			}
		}
		clitest.Want(t, "verdict", pg.PsqlAt(t, clitest.AsUser(url, service),
			"SELECT verdict FROM retrysafe.claim('orders', '17')"), "acquired")
		clitest.Want(t, "rights on tables", pg.PsqlAt(t, url, "SELECT count(*) FROM pg_class WHERE relnamespace = "+
			"'retrysafe'::regnamespace AND relkind IN ('r', 'p', 'v') AND has_any_column_privilege('"+service+
			"', oid, 'SELECT, INSERT, UPDATE, REFERENCES')"), "0")
		for _, c := range []struct{ change, warning string }{
			{"SELECT 1", ""},
			{"GRANT SELECT ON retrysafe.results TO " + service, ""}, // which --service-role takes back
			{"GRANT SELECT ON retrysafe.results TO PUBLIC", "role " + service + " can read the answers and leases of all services"},
			{"REVOKE SELECT ON retrysafe.results FROM PUBLIC", ""},
		} {
			pg.PsqlAt(t, url, c.change)
			got := clitest.Run(t, "migrate", "up", "--store="+url, "--service-role="+service)
			clitest.Want(t, "exit code: "+got.Stderr, got.Code, cli.ExitOK)
			if c.warning == "" {
				clitest.Want(t, "warnings after "+c.change, got.Stderr, "")
			} else {
				clitest.WantText(t, "warnings after "+c.change, got.Stderr, "warning: schema retrysafe: "+c.warning)
			}
		}
	}
}

// A service's account calls the procedures and sees no table, as migrate up or the script has granted it.
func TestMigrateForAServiceOfMySQL(t *testing.T) {
	t.Parallel()
	server := clitest.MariaDB.Get(t)
	for _, how := range []string{"up", "print"} {
		dsn, service := server.Database(t), "service_"+retrysafe.NewOwner().String()[:12]
		config, err := mysql.ParseDSN(dsn)
		clitest.Must(t, err)
		server.SQL(t, "CREATE USER "+service)
		t.Cleanup(func() { server.SQL(t, "DROP USER "+service) })
		url := "mysql://" + config.User + "@" + config.Addr + "/" + config.DBName
		got := clitest.Run(t, "migrate", how, "--store="+url, "--service-role="+service)
		clitest.Want(t, "exit code: "+got.Stderr, got.Code, cli.ExitOK)
		if how == "print" {
			server.SQLAt(t, config.DBName, got.Stdout)
		}
		grants := server.SQL(t, "SHOW GRANTS FOR "+service)
		clitest.WantText(t, "grants after migrate "+how, grants, "GRANT EXECUTE ON PROCEDURE", "retrysafe_complete")
		if strings.Contains(grants, "SELECT") || strings.Contains(grants, "INSERT") {
			t.Errorf("migrate %s grants a service tables: %s", how, grants)
		}
		clitest.Want(t, "warnings", got.Stderr, "")
		got = clitest.Run(t, "migrate", "status", "--store="+url)
		clitest.Want(t, "exit code of status: "+got.Stderr, got.Code, cli.ExitOK)
		server.SQL(t, "GRANT ALL ON "+config.DBName+".* TO "+service)
		got = clitest.Run(t, "migrate", "up", "--store="+url)
		clitest.Want(t, "exit code: "+got.Stderr, got.Code, cli.ExitOK)
		clitest.WantText(t, "warnings after GRANT ALL", got.Stderr, service, "can read the answers and leases of all services")
	}
}

func TestMigrateHasNothingToDoForAFile(t *testing.T) {
	t.Parallel()
	for _, do := range []string{"up", "status"} {
		got := clitest.Run(t, "migrate", do, "--store=keys.db")
		clitest.Want(t, "exit code", got.Code, cli.ExitOK)
		clitest.WantText(t, "output", got.Stdout, "keys.db migrates itself")
	}
	got := clitest.Run(t, "migrate", "print", "--store=keys.db")
	clitest.Want(t, "exit code", got.Code, cli.ExitRefused)
}

// Seen to fail with Prepare of a bucket left out, and with --role accepted.
func TestMigrateABucket(t *testing.T) {
	t.Parallel()
	store := "--store=" + clitest.NATS.Get(t).URL() + "/migrated?replicas=1"
	for _, c := range []struct {
		do   []string
		code int
		says string
	}{
		{[]string{"migrate", "status", store}, cli.ExitFailed, "run: retrysafe migrate up"},
		{[]string{"migrate", "up", store, "--role=x"}, cli.ExitRefused, "--role"},
		{[]string{"migrate", "up", store}, cli.ExitOK, "bucket migrated: created, replicas: 1\n"},
		{[]string{"migrate", "up", store}, cli.ExitOK, "store nats://"},
		{[]string{"migrate", "status", store}, cli.ExitOK, "has what it needs"},
	} {
		got := clitest.Run(t, c.do...)
		clitest.Want(t, "exit code", got.Code, c.code)
		clitest.WantText(t, strings.Join(c.do, " "), got.Stdout+got.Stderr, c.says)
	}
}

// Each says what is wrong, where, and what to do; none shows the password.
//
// Seen to fail with the schema left out of what pgstore.New is told, and with the URL of the proxy in the command that
// Postgres.migration returns: the role of a proxy may not migrate.
func TestPostgresThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	pg := clitest.Postgres.Get(t)
	there, app := pg.Database(t), "app_"+retrysafe.NewOwner().String()
	pg.Psql(t, "CREATE ROLE "+app+" LOGIN")
	t.Cleanup(func() { pg.Psql(t, "DROP ROLE "+app) })
	const closed = "127.0.0.1:1"
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	for _, c := range []struct {
		name, url string
		says      []string
	}{
		{
			"no server listens", "postgres://u:s3cret@" + closed + "/db",
			[]string{"cannot connect", closed, "check that it runs"},
		},
		{
			"no such host", "postgres://u:s3cret@nowhere.invalid/db",
			[]string{"cannot connect", "nowhere.invalid", "check the name"},
		},
		{
			"no answer", "postgres://u:s3cret@" + silent.Addr().String() + "/db?connect_timeout=1",
			[]string{"cannot connect", "does not answer within 1s"},
		},
		{"no such role", clitest.AsUser(there, "stranger:s3cret"), []string{"cannot connect", "stranger", "pg_hba.conf"}},
		{"no such database", pg.URL("nothing"), []string{"cannot connect", "createdb nothing"}},
		{
			"no schema", clitest.AsUser(there, app),
			[]string{
				`"retrysafe" is missing`, "as the owner of the schema",
				"retrysafe migrate up --store URL --role " + app + " ",
			},
		},
		{
			"another schema", clitest.WithParam(clitest.AsUser(clitest.Migrated(t), app), "schema=other"),
			[]string{`"other" is missing`, "retrysafe migrate up --store URL --schema other --role " + app + " "},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			args := []string{"proxy", "--upstream=http://127.0.0.1:1", "--listen=127.0.0.1:0"}
			if c.says[0] == "cannot connect" { // a proxy waits for a minute; see TestOpenPatientlyGivesUp
				args = []string{"keys", "list"}
			}
			got := clitest.Run(t, append(args, "--store="+c.url)...)
			clitest.Want(t, "exit code", got.Code, cli.ExitFailed)
			clitest.WantText(t, "output", got.Stderr, c.says...)
			if strings.Contains(got.Stderr, "s3cret") || strings.Contains(got.Stderr, "goroutine") {
				t.Errorf("output shows too much:\n%s", got.Stderr)
			}
		})
	}
}

// Each says who has to run what, and that a service must not be given what a proxy needs.
//
// Seen to fail with the URL of the proxy in the command that MySQL.migration returns, with databaseDenied
// and tableDenied taken out of missingRights, with pgstore's distinction left out of mysqlstore's errors, and with
// explained not looked for there.
func TestMySQLThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	server := clitest.MariaDB.Get(t)
	name := "app_" + retrysafe.NewOwner().String()[:12]
	server.SQL(t, "CREATE USER "+name)
	t.Cleanup(func() { server.SQL(t, "DROP USER "+name) })
	place := func() (owner, app, database string) {
		config, err := mysql.ParseDSN(server.Database(t))
		clitest.Must(t, err)
		rest := "@" + config.Addr + "/" + config.DBName
		return "mysql://" + config.User + rest, "mysql://" + name + rest, config.DBName
	}
	refused := func(what, url string, says ...string) {
		t.Helper()
		got := clitest.Run(t, "proxy", "--upstream=http://127.0.0.1:1", "--listen=127.0.0.1:0", "--store="+url)
		clitest.Want(t, "exit code with "+what, got.Code, cli.ExitFailed)
		clitest.WantText(t, what, got.Stderr, says...)
		if strings.Contains(got.Stderr, "GRANT") {
			t.Errorf("%s: it advises a GRANT, which may hand a service all answers:\n%s", what, got.Stderr)
		}
		if strings.Count(got.Stderr, "migrate print") > 1 {
			t.Errorf("%s: it says twice what to do:\n%s", what, got.Stderr)
		}
	}
	command := "retrysafe migrate up --store URL --role " + name + "@HOST"
	roles := []string{command, "it can read all answers then", "account of a service"}

	owner, app, database := place()
	refused("no right to the database", app, append(roles, "Access denied", "Check the name of the database")...)
	server.SQL(t, "GRANT SELECT ON "+database+".* TO "+name)
	refused("no tables", app, "the tables are missing", "as the owner of the schema", command)
	server.SQL(t, "REVOKE SELECT ON "+database+".* FROM "+name)
	got := clitest.Run(t, "migrate", "up", "--store="+owner, "--service-role="+name)
	clitest.Want(t, "exit code: "+got.Stderr, got.Code, cli.ExitOK)
	refused("the account of a service", app, append(roles, "command denied", "opens no store")...)
}

// Seen to fail with Store.Value not replaced in Cmd.check, and with the URL as Ref.Name.
func TestPostgresPasswordIsNotLogged(t *testing.T) {
	t.Parallel()
	url := clitest.AsUser(clitest.Migrated(t), "postgres:s3cret")
	p := clitest.StartProxy(t, "--upstream=http://127.0.0.1:1", "--store="+url)
	clitest.WantText(t, "log", p.Log(), "postgres:xxxxx@")
	check := clitest.Run(t, "proxy", "--upstream=http://127.0.0.1:1", "--store="+url, "--check")
	clitest.Want(t, "exit code without an upstream", check.Code, cli.ExitFailed)
	clitest.WantText(t, "output", check.Stdout+check.Stderr, "store: 'postgres://postgres:xxxxx@",
		"ok      store postgres://postgres:xxxxx@", "takes keys")
	if shown := p.Log() + check.Stdout + check.Stderr; strings.Contains(shown, "s3cret") {
		t.Errorf("the password is shown:\n%s", shown)
	}
}

func TestSweepPostgres(t *testing.T) {
	t.Parallel()
	pg, url := clitest.Postgres.Get(t), clitest.Migrated(t)
	for _, statement := range []string{
		// 25 records whose retention has passed, one that is in flight.
		`INSERT INTO retrysafe.claims SELECT gen_random_uuid(), gen_random_uuid(), n, n, 0, 0, 0, 0, 0, n / 60, 1, 0, 0, 1, false,
			false, false, '', '', '' FROM generate_series(1, 25) n`,
		`INSERT INTO retrysafe.claims SELECT gen_random_uuid(), gen_random_uuid(), 1, 1, 0, retrysafe.clock() + 1000000000, 0, 0, 0, 0, 1,
			0, 0, 1, false, false, false, '', '', ''`,
		// Days of 2022.
		`CREATE TABLE retrysafe.results_20220108 PARTITION OF retrysafe.results FOR VALUES FROM (1641600000000000) TO (1641686400000000)`,
		`CREATE TABLE retrysafe.results_20220109 PARTITION OF retrysafe.results FOR VALUES FROM (1641686400000000) TO (1641772800000000)`,
	} {
		pg.PsqlAt(t, url, statement)
	}
	first := clitest.Run(t, "sweep", "--json", "--limit=10", "--store="+url)
	clitest.Want(t, "exit code: "+first.Stderr, first.Code, cli.ExitOK)
	var r swept
	if err := json.Unmarshal([]byte(first.Stdout), &r); err != nil {
		t.Fatal(err)
	}
	clitest.Want(t, "result", r, swept{Store: url, Swept: 10, Took: r.Took, More: true})
	rest := clitest.Run(t, "sweep", "--store="+url)
	clitest.WantText(t, "output", rest.Stdout, "swept 15 records")
	none := clitest.Run(t, "sweep", "--store="+url)
	clitest.WantText(t, "output", none.Stdout, "swept 0 records", "nothing is due")
	clitest.Want(t, "left", pg.PsqlAt(t, url, "SELECT count(*) FROM retrysafe.claims"), "1")
	clitest.Want(t, "days of 2022", pg.PsqlAt(t, url,
		"SELECT count(*) FROM pg_class WHERE relname LIKE 'results_2022%'"), "0")
}
