package pgstore

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/retrysafe/retrysafe/internal/servers"
)

// openBouncer returns the URL of a fresh database through PgBouncer in transaction mode, and its own.
func openBouncer(t *testing.T) (through, direct string) {
	t.Helper()
	pg := shared.Get(t)
	direct = pg.Database(t)
	u, err := url.Parse(direct)
	if err != nil {
		t.Fatal(err)
	}
	b := servers.StartPgBouncer(t, pg, servers.PgBouncerOptions{PoolMode: "transaction"})
	return b.URL(strings.TrimPrefix(u.Path, "/")) + "&default_query_exec_mode=cache_describe", direct
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

// Seen to fail with sayHello taken out: LISTEN worked, Watch seemed to, and nothing was ever heard.
func TestDeafThroughPgBouncer(t *testing.T) {
	t.Parallel()
	through, _ := openBouncer(t)
	s := openAt(t, through, Options{})
	begun := time.Now()
	if _, _, err := s.Watch(context.Background(), params("k").Key); !errors.Is(err, errDeaf) {
		t.Errorf("Watch = %v, want an error that says to poll", err)
	}
	if took := time.Since(begun); took > 2*helloTime {
		t.Errorf("Watch took %v", took)
	}
	waitThrough(t, s, s)
}

// Servers whose default is a stricter isolation get the same answers.
func TestContractUnderOtherDefaults(t *testing.T) {
	t.Parallel()
	runContract(t, shared.Get(t).Database(t)+"&default_transaction_isolation=serializable", Options{Schema: "other_name"})
}
