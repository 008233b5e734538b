package pgstore

import (
	"context"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// Seen to fail with the second send taken out of sendUntilConnected, with SentAgain left out of anew, with the timer taken
// out of Workers.runWatched, and with LeaveHeld not called. What else breaks a rule is in storetest.
func TestServer(t *testing.T) {
	t.Parallel()
	pg := servers.StartPostgres(t, servers.PostgresOptions{})
	storetest.RunServer(t, serverHarness(func(t *testing.T) storetest.Place {
		p := placeAt(t, pg.Database(t))
		p.Restart, p.Kill, p.Start = pg.Restart, pg.Kill, pg.Start
		return p
	}))
}

// Where the database's default is a stricter isolation, rows that others have changed meanwhile fail a transaction.
// Seen to fail with s.pool.Begin in readCommitted, and, where retry tries once only, with strict left false.
func TestServerOfStricterIsolation(t *testing.T) {
	t.Parallel()
	for _, isolation := range []string{"repeatable read", "serializable"} {
		t.Run(isolation, func(t *testing.T) {
			t.Parallel()
			storetest.RunServer(t, serverHarness(func(t *testing.T) storetest.Place {
				return placeAt(t, shared.Get(t).Database(t)+"&options=-c%20deadlock_timeout%3D50ms"+
					"&default_transaction_isolation="+url.PathEscape(isolation))
			}))
		})
	}
}

func serverHarness(place func(t *testing.T) storetest.Place) storetest.ServerHarness {
	return storetest.ServerHarness{Place: place, Doubts: true}
}

// placeAt migrates a database.
func placeAt(t *testing.T, database string) storetest.Place {
	t.Helper()
	owner := openAt(t, database, Options{})
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	return storetest.Place{
		Address: u.Host,
		Open: func(t *testing.T, address string) retrysafe.Store {
			at := *u
			at.Host = address
			config, err := pgxpool.ParseConfig(at.String())
			if err != nil {
				t.Fatal(err)
			}
			// The first answer on a connection is that to a call, however long the connection was idle.
			config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
			pool, err := pgxpool.NewWithConfig(context.Background(), config)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			return openOn(t, pool, Options{})
		},
		Lock: func(t *testing.T, k retrysafe.Key) (unlock func()) { return lockRow(t, owner, k) },
		Waiting: func(t *testing.T) []string {
			return value[[]string](t, owner, "SELECT coalesce(array_agg(pid || ' ' || query_start), '{}') "+
				"FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
		},
	}
}
