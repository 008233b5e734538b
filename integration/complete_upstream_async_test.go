package integration

import (
	"context"
	"database/sql"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/proxy"
)

// The power of the database is cut at each point of a service's work, on a route whose claims do not wait for the disk.
// Before COMMIT claim and work are gone, the key is free, and the request runs again; after it both are there. A
// service that goes on with its lost claim cannot complete. If it dies too, the proxy sends the request again.
//
// Seen to fail with mayBeLost false: no claim was lost.
func TestPowerCutsWithAsyncClaims(t *testing.T) {
	t.Parallel()
	lost := new(atomic.Int32)
	t.Cleanup(func() { // after the subtests
		if lost.Load() == 0 {
			t.Error("no claim was lost: the tests have shown nothing")
		}
	})
	for _, point := range []string{"before the work", "after the write", "before COMMIT", "after COMMIT"} {
		for name, dies := range map[string]bool{"": false, ", and the service dies": true} {
			t.Run(point+name, func(t *testing.T) {
				t.Parallel()
				cutThePower(t, point, dies, lost)
			})
		}
	}
}

func cutThePower(t *testing.T, point string, dies bool, lostClaims *atomic.Int32) {
	// Asynchronous commits are in the memory of the server's processes until then, or until another commit.
	pg := servers.StartPostgres(t, servers.PostgresOptions{Settings: map[string]string{"wal_writer_delay": "10s"}})
	on := databases["PostgreSQL"]
	on.open = func(t *testing.T) (*sql.DB, retrysafe.Store) {
		address := pg.Database(t)
		return openDB(t, "pgx", address), openPostgres(t, address)
	}
	b := newBank(t, on, func(r *proxy.Route) { r.HTTP.Attempts, r.Policy.AsyncClaim = 3, true })
	isLost := false
	b.once(point, func(w http.ResponseWriter) {
		pg.Kill(t)
		pg.Start(t)
		isLost = b.claims() == 0
		if dies {
			crash(w)
		}
	})
	first, err := b.charge(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if isLost {
		lostClaims.Add(1)
	}
	committed, goesOn := point == "after COMMIT", point == "before the work" && !dies
	want, asked, refused := reply{status: 201, state: "executed"}, 2, 0
	switch {
	case committed && isLost:
		t.Error("the claim is lost although the service has committed")
	case committed, goesOn && !isLost:
		asked = 1
	case goesOn:
		want, refused = reply{status: 500, state: "released"}, 1
	case !dies: // its transaction is gone
		want = reply{status: 500, state: "released"}
	}
	if first.status != want.status || first.state != want.state {
		t.Errorf("got %+v, want %d %s", first, want.status, want.state)
	}
	if first.status != 201 {
		b.want(201, "executed")
	}
	b.wantEnd(asked, refused)
}

// claims returns how many keys the database has, once it can be reached.
func (b *bank) claims() (n int) {
	b.Helper()
	for range 600 {
		if err := b.db.QueryRow("SELECT count(*) FROM retrysafe.claims").Scan(&n); err == nil {
			return n
		}
		time.Sleep(100 * time.Millisecond) // between two tries
	}
	b.Error("the database does not come back")
	return n
}
