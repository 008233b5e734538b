package integration

import (
	"context"
	"database/sql"
	"net/url"
	"strings"
	"testing"

	"github.com/anishathalye/porcupine"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx" of database/sql

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/internal/testing/sqlfunctions"
)

// The calls of services in other languages, through the SQL functions of PostgreSQL alone, and then beside those of a
// program in Go on the same keys.
//
// Seen to fail with the comparison of fences taken out of end_attempt, and with the lease taken out of claim_record.
func TestHistoriesOfTheSQLFunctionsAreLinearizable(t *testing.T) {
	for _, isolation := range []string{"read committed", "repeatable read", "serializable"} {
		for _, bouncer := range []bool{false, true} {
			name := isolation + map[bool]string{true: " through PgBouncer"}[bouncer]
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				pg := shared.Get(t)
				direct := pg.Database(t)
				pg.PsqlAt(t, direct, "ALTER DATABASE "+databaseName(t, direct)+
					" SET default_transaction_isolation = '"+isolation+"'")
				programs, through := openPostgres(t, direct), direct
				if bouncer {
					b := servers.StartPgBouncer(t, pg, servers.PgBouncerOptions{PoolMode: "transaction"})
					through = b.Through(t, direct) + "&default_query_exec_mode=cache_describe"
				}
				db, err := sql.Open("pgx", through)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { db.Close() })
				db.SetMaxIdleConns(16)
				calls := &sqlfunctions.Store{DB: db, Schema: "retrysafe", Records: true}
				for seed, s := range []retrysafe.Store{calls, besideEachOther{calls, programs}} {
					history := record(s, uint64(seed), 16, 40)
					if got := check(history); got != porcupine.Ok {
						t.Errorf("history %d of %d calls is %s", seed, len(history), got)
					}
				}
			})
		}
	}
}

func databaseName(t *testing.T, database string) string {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(u.Path, "/")
}

// besideEachOther makes each call through one of two stores.
type besideEachOther struct {
	retrysafe.Store
	other retrysafe.Store
}

// of chooses a store by a byte that is random.
func (b besideEachOther) of(n byte) retrysafe.Store {
	if n%2 == 0 {
		return b.other
	}
	return b.Store
}

func (b besideEachOther) Claim(ctx context.Context, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
	return b.of(p.Owner[0]).Claim(ctx, p)
}

func (b besideEachOther) Complete(
	ctx context.Context, l retrysafe.Lease, r retrysafe.Result, keep retrysafe.Retention,
) error {
	return b.of(l.Owner[1]).Complete(ctx, l, r, keep)
}

func (b besideEachOther) Release(ctx context.Context, l retrysafe.Lease) error {
	return b.of(l.Owner[2]).Release(ctx, l)
}
