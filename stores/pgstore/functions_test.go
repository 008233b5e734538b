package pgstore

import (
	"database/sql"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/internal/testing/soak"
	"github.com/retrysafe/retrysafe/internal/testing/sqlfunctions"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// isolations are what a database's default_transaction_isolation may be.
var isolations = []string{"read committed", "repeatable read", "serializable"}

// byFunctions is a store that does through the SQL functions what services do, and the rest as programs in Go.
type byFunctions struct {
	*sqlfunctions.Store
	retrysafe.Sweeper
	retrysafe.Inspector
	retrysafe.Purger
	retrysafe.Reopener
	programs *Store
}

// openFunctions returns a store over the functions of a database that is there.
func openFunctions(t testing.TB, url string, hold bool, programs *Store) byFunctions {
	t.Helper()
	calls := &sqlfunctions.Store{DB: openSQL(t, url), Schema: programs.options.Schema, Records: true, Results: true, Hold: hold}
	return byFunctions{calls, programs, programs, programs, programs, programs}
}

// openSQL returns connections of database/sql until the test ends.
func openSQL(t testing.TB, url string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxIdleConns(16)
	t.Cleanup(func() { db.Close() })
	return db
}

// setting is how a service reaches the functions.
type setting struct {
	isolation string // the database's default
	bouncer   bool   // through PgBouncer in transaction mode
}

func (s setting) String() string {
	return s.isolation + map[bool]string{true: " through PgBouncer"}[s.bouncer]
}

// settings are all six, or two of them: what most services have, and the strictest isolation through PgBouncer.
func settings(isAll bool) (all []setting) {
	if !isAll {
		return []setting{{"read committed", false}, {"serializable", true}}
	}
	for _, isolation := range isolations {
		for _, bouncer := range []bool{false, true} {
			all = append(all, setting{isolation, bouncer})
		}
	}
	return all
}

// forBouncer ends the URLs of databases behind PgBouncer.
const forBouncer = "&default_query_exec_mode=cache_describe"

// place makes a database with the schema, and returns its URL, and the one by which services reach it.
func (s setting) place(t testing.TB) (direct, through string) {
	t.Helper()
	pg := shared.Get(t)
	direct = pg.Database(t)
	pg.PsqlAt(t, direct, "ALTER DATABASE "+databaseOf(t, direct)+" SET default_transaction_isolation = '"+s.isolation+"'")
	openAt(t, direct, Options{})
	if !s.bouncer {
		return direct, direct
	}
	b := servers.StartPgBouncer(t, pg, servers.PgBouncerOptions{
		PoolMode: "transaction", Settings: map[string]string{"log_connections": "0", "log_disconnections": "0"},
	})
	return direct, b.Through(t, direct) + forBouncer
}

// The whole contract through the functions, directly and through PgBouncer, whatever the database's default isolation.
// What breaks each rule is in storetest; see also TestSoakFunctionsMutants.
func TestSoakFunctionsContract(t *testing.T) {
	t.Parallel()
	for _, s := range settings(soak.Times(t, 1) > 1) {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			direct, through := s.place(t)
			programs := openOn(t, openPool(t, direct), Options{})
			calls := openFunctions(t, through, s.bouncer, programs)
			storetest.Run(t, storetest.Harness{
				Open: func(t *testing.T) retrysafe.Store { empty(t, programs); return calls },
				Age:  func(t *testing.T, _ retrysafe.Store, d time.Duration) { age(t, programs, d) },
				Reopen: func(t *testing.T, _ retrysafe.Store) retrysafe.Store {
					return openFunctions(t, through, s.bouncer, programs)
				},
				Walks: 1,
			})
		})
	}
}
