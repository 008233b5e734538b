package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// openBouncer returns the URL of a fresh database through PgBouncer in transaction mode, and its own.
func openBouncer(t *testing.T) (through, direct string) {
	t.Helper()
	pg := shared.Get(t)
	direct = pg.Database(t)
	b := servers.StartPgBouncer(t, pg, servers.PgBouncerOptions{PoolMode: "transaction"})
	return b.Through(t, direct) + "&default_query_exec_mode=cache_describe", direct
}

// The whole contract, where each transaction may get another connection.
func TestContractThroughPgBouncer(t *testing.T) {
	t.Parallel()
	through, direct := openBouncer(t)
	listen, err := pgx.ParseConfig(direct)
	if err != nil {
		t.Fatal(err)
	}
	runContract(t, through, Options{Listen: listen})
}

// Seen to fail with checkNotifications taken out: LISTEN worked, Watch seemed to, and nothing was ever heard.
func TestDeafThroughPgBouncer(t *testing.T) {
	t.Parallel()
	through, _ := openBouncer(t)
	s := openAt(t, through, Options{})
	if _, _, err := s.Watch(context.Background(), params("k").Key); !errors.Is(err, errDisconnected) {
		t.Errorf("Watch = %v, want an error that says to poll", err)
	}
	waitThrough(t, s, s)
}

const remedy = "default_query_exec_mode=cache_describe"

// Of two processes behind a PgBouncer that knows nothing of prepared statements, the second is told what to do.
// Seen to fail with isPreparedElsewhere answering no.
func TestPgBouncerThatMixesUpStatements(t *testing.T) {
	t.Parallel()
	pg := shared.Get(t)
	direct := pg.Database(t)
	openAt(t, direct, Options{})
	through := servers.StartPgBouncer(t, pg, servers.PgBouncerOptions{PoolMode: "transaction", PoolSize: 1}).
		Through(t, direct)
	for i := range 2 {
		s, err := New(t.Context(), openPool(t, through), Options{})
		if err == nil {
			_, err = s.Claim(t.Context(), params(fmt.Sprint(i)))
			s.Close()
		}
		if err != nil && !strings.Contains(err.Error(), remedy) { // nil: a PgBouncer that keeps track
			t.Errorf("process %d: %v, want what to do", i, err)
		}
	}
}

// Seen to fail with each SQLSTATE taken out of isPreparedElsewhere.
func TestMixedUpStatementsAreExplained(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, state, severity string
		explained             bool
	}{
		{"not prepared here", "26000", "ERROR", true},
		{"prepared by another client", "42P05", "ERROR", true},
		{"another statement", "08P01", "ERROR", true},
		{"PgBouncer has no such user", "08P01", "FATAL", false},
		{"something else", "22003", "ERROR", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := &pgconn.PgError{Code: c.state, SeverityUnlocalized: c.severity}
			got := explain(err)
			if strings.Contains(got.Error(), remedy) != c.explained || !errors.Is(got, err) {
				t.Errorf("got %v", got)
			}
		})
	}
}

// A statement that is gone is missed by a call that had prepared it, and the call says why.
// Seen to fail with explain left out of retry.
func TestMixedUpStatementsOfACall(t *testing.T) {
	t.Parallel()
	s := openAt(t, shared.Get(t).Database(t)+"&pool_max_conns=1", Options{})
	acquire(t, s, "first")
	if _, err := s.pool.Exec(t.Context(), "DEALLOCATE ALL", pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Claim(t.Context(), params("second")); err == nil || !strings.Contains(err.Error(), remedy) {
		t.Errorf("got %v, want what to do", err)
	}
}
