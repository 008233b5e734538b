package mysqlstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/internal/testing/soak"
)

// worker is a service that claims a key, charges for it and completes it.
type worker struct {
	*shop
	apart bool // it completes in a transaction of its own, after that of the charge
}

// statements are what an attempt executes, one after the other.
func (w *worker) statements(lease, id string) []string {
	charge := fmt.Sprintf("INSERT INTO charges VALUES (x'%x')", id)
	complete := inDatabase(fmt.Sprintf("CALL {{complete}} ('%s', 'charged', NULL, NULL)", lease), w.owner.options.Database)
	if w.apart {
		return []string{"START TRANSACTION", charge, "COMMIT", "START TRANSACTION", complete, "COMMIT"}
	}
	return []string{"START TRANSACTION", charge, complete, "COMMIT"}
}

// attempt makes one attempt at the key, with a lease that is too short for some, and reports whether the key is done.
func (w *worker) attempt(id string) bool {
	ctx := context.Background()
	c, err := callClaim(ctx, w.db, w.owner.options.Database, "shop", id, "", `{"lease_for": 0.02, "take_over": true}`)
	if err != nil || c.verdict != "acquired" {
		return err == nil && c.verdict == "done"
	}
	raw, err := w.db.Conn(ctx)
	if err != nil {
		return false
	}
	for _, text := range w.statements(c.lease.String, id) {
		if rand.IntN(5) == 0 {
			time.Sleep(rand.N(30 * time.Millisecond)) // that is the work
		}
		if _, err := raw.ExecContext(ctx, text); err != nil {
			discard(&conn{Conn: raw}) // its transaction rolls back
			return false
		}
	}
	return raw.Close() == nil
}

// work has the keys worked on by three workers each while connections and statements are killed, until all are done. It
// returns how many keys have not exactly one charge, and how many kills there were.
func (w *worker) work(keys int) (wrong, kills int) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Millisecond):
			}
			var id int64
			row := w.owner.db.QueryRow("SELECT id FROM information_schema.processlist WHERE db = ? AND user LIKE 'app %' "+
				"ORDER BY RAND() LIMIT 1", w.owner.options.Database)
			if row.Scan(&id) != nil {
				continue
			}
			if _, err := w.owner.db.Exec(fmt.Sprintf("KILL %s %d", []string{"CONNECTION", "QUERY"}[rand.IntN(2)], id)); err == nil {
				kills++
			}
		}
	}()
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			for k := i % 4; k < keys; k += 4 {
				for !w.attempt(fmt.Sprint("key ", k)) {
				}
			}
		})
	}
	all.Wait()
	close(stop)
	<-stopped
	for k := range keys {
		if w.charges(fmt.Sprint("key ", k)) != 1 {
			wrong++
		}
	}
	return wrong, kills
}

// Services are killed anywhere, and lose their lease in the middle: each key that is done has been charged for once. With
// the completion in a transaction of its own some keys have been charged for twice, which shows that the test would see
// it.
func TestSoakExactlyOnceUnderKills(t *testing.T) {
	t.Parallel()
	for name, settings := range isolations {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := worker{shop: openShop(t, settings)}
			keys := soak.Times(t, 60)
			for kills := 0; kills < 10; { // on a busy machine there are few
				empty(t, w.owner)
				execute(t, w.owner, "DELETE FROM charges")
				wrong, n := w.work(keys)
				kills += n
				t.Logf("%d keys, %d kills", keys, n)
				if wrong > 0 {
					t.Fatalf("after %d kills %d of %d keys have not exactly one charge", n, wrong, keys)
				}
			}
		})
	}
	t.Run("two transactions", func(t *testing.T) {
		t.Parallel()
		w := worker{shop: openShop(t, nil), apart: true}
		for range 10 {
			if wrong, _ := w.work(60); wrong > 0 {
				t.Logf("%d of 60 keys have not exactly one charge", wrong)
				return
			}
			empty(t, w.owner)
			execute(t, w.owner, "DELETE FROM charges")
		}
		t.Error("the test does not see keys that are charged for twice")
	})
}

// The server is killed after each statement of a service: the charge is there exactly if the answer is.
func TestServerKilledAtEachPoint(t *testing.T) {
	t.Parallel()
	server := servers.StartMariaDB(t, servers.MariaDBOptions{})
	owner := openAt(t, server.Database(t), Options{})
	execute(t, owner, "CREATE TABLE charges (id VARBINARY(50)) ENGINE = InnoDB")
	w := worker{shop: &shop{T: t, owner: owner, db: owner.db}}
	points := len(w.statements("", ""))
	for n := range points + 1 {
		id := fmt.Sprint("point ", n)
		raw, err := w.db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer raw.Close()
		for _, text := range w.statements(w.claim(id, "{}"), id)[:n] {
			if _, err := raw.ExecContext(t.Context(), text); err != nil {
				t.Fatal(err)
			}
		}
	}
	server.Kill(t)
	server.Start(t)
	for n := range points + 1 {
		id, want, charges := fmt.Sprint("point ", n), retrysafe.Pending, 0
		if n == points {
			want, charges = retrysafe.Succeeded, 1
		}
		if got := w.charges(id); got != charges || w.state(id) != want {
			t.Errorf("killed after %d statements: %d charges, and the record is %v; want %d and %v", n, got, w.state(id), charges, want)
		}
	}
}
