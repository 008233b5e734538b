package pgstore

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/internal/testkit"
)

// watch watches a key until the test ends. On a busy machine the first connection that is to listen may be given up.
func watch(t *testing.T, s *Store, k retrysafe.Key) (changed <-chan struct{}) {
	t.Helper()
	eventually(t, "notifications arrive", func() bool {
		c, stop, err := s.Watch(t.Context(), k)
		if err == nil {
			t.Cleanup(stop)
			changed = c
		} else if !errors.Is(err, errDisconnected) {
			t.Fatal(err)
		}
		return err == nil
	})
	return changed
}

// woken waits for a value.
func woken(t *testing.T, changed <-chan struct{}) {
	t.Helper()
	select {
	case <-changed:
	case <-time.After(testkit.Patience):
		t.Fatal("the watcher is not woken")
	}
}

// Each notification costs all commits of the server a lock: there is none without a waiter.
// Seen to fail with CASE WHEN waiters taken out of complete.sql.
func TestNotifiesOnlyThoseWhoWait(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	ctx := context.Background()
	listener, err := pgx.Connect(ctx, s.pool.Config().ConnString())
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close(ctx)
	if _, err := listener.Exec(ctx, "LISTEN "+channel(s.options.Schema)); err != nil {
		t.Fatal(err)
	}
	quiet, released, watched := acquire(t, s, "quiet"), acquire(t, s, "released"), acquire(t, s, "watched")
	watch(t, s, watched.Key)
	if err := errors.Join(complete(s, quiet), s.Release(ctx, released), complete(s, watched)); err != nil {
		t.Fatal(err)
	}
	for {
		n, err := listener.WaitForNotification(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(n.Payload, "check") {
			continue
		}
		d := watched.Key.Digest()
		if got := strings.ReplaceAll(n.Payload, "-", ""); got != d.String() {
			t.Errorf("the first notification is of %s, want that of the key that is watched, %s", got, d)
		}
		return
	}
}

// listening are the connections that listen for notifications.
const listening = `FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'`

// disconnect ends the connection that listens.
func disconnect(t *testing.T, s *Store) {
	t.Helper()
	eventually(t, "one connection listens", func() bool {
		return value[int](t, s, `SELECT count(pg_terminate_backend(pid)) `+listening) == 1
	})
}

// Seen to fail with WakeAll taken out of setConnected, and with the loop taken out of run.
func TestListenerDies(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	ctx, lease := context.Background(), acquire(t, s, "k")
	changed, err := watch(t, s, lease.Key), error(nil)
	for began := (time.Time{}); !errors.Is(err, errDisconnected); {
		if err != nil || !began.IsZero() && time.Since(began) < reconnectPause {
			t.Fatalf("Watch without a connection = %v, want an error that says to poll", err)
		}
		// On a busy machine the connection may be made again before Watch is called. Then it is broken once more.
		began = time.Now()
		disconnect(t, s)
		woken(t, changed) // something may have been missed
		var again func()
		if _, again, err = s.Watch(ctx, lease.Key); err == nil {
			again()
			select {
			case <-changed: // by the connection that was made again
			default:
			}
		}
	}
	waitThrough(t, s, s) // by polling
	eventually(t, "Watch works again", func() bool {
		_, stop, err := s.Watch(ctx, params("other").Key)
		if err == nil {
			stop()
		}
		return err == nil
	})
	woken(t, changed) // likewise
	if err := complete(s, lease); err != nil {
		t.Fatal(err)
	}
	woken(t, changed) // who watched before is told
}

func TestGuardWaits(t *testing.T) {
	t.Parallel()
	url := shared.Get(t).Database(t)
	here, there := openAt(t, url, Options{}), openAt(t, url, Options{})
	waitThrough(t, here, there)
	waitThrough(t, here, here)
	disconnect(t, here)
	waitThrough(t, here, there)
}

// waitThrough has a request wait at one store for an attempt at another.
func waitThrough(t *testing.T, waiting, working *Store) {
	t.Helper()
	ctx := context.Background()
	asked := &counting{Store: waiting}
	worker, waiter := retrysafe.New(working, retrysafe.Options{}), newWaiter(asked)
	defer worker.Shutdown(ctx)
	defer waiter.Shutdown(ctx)
	request := retrysafe.Request{Key: retrysafe.Key{Scope: "wait", ID: rand.Text()}}
	begun, end := make(chan struct{}), make(chan struct{})
	go worker.Do(ctx, request, answering(func() error { close(begun); <-end; return nil }))
	<-begun
	answered := make(chan error)
	go func() {
		_, err := waiter.Do(ctx, request, answering(func() error { return errors.New("it ran twice") }))
		answered <- err
	}()
	// The second claim comes after Watch, or after the first pause.
	eventually(t, "the request waits", func() bool { return asked.claims.Load() > 1 })
	close(end)
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

// answering is work that f does.
func answering(f func() error) retrysafe.Work {
	return func(context.Context, *retrysafe.Attempt) (retrysafe.Result, error) { return retrysafe.Result{}, f() }
}

func newWaiter(s retrysafe.Store) *retrysafe.Guard {
	return retrysafe.New(s, retrysafe.Options{Policy: retrysafe.Policy{OnInFlight: retrysafe.Wait(testkit.Patience)}})
}

// counting counts the claims of a store that have been answered.
type counting struct {
	*Store
	claims atomic.Int64
}

func (c *counting) Claim(ctx context.Context, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
	defer c.claims.Add(1)
	return c.Store.Claim(ctx, p)
}

// counter counts what goes to the server.
type counter struct{ batches, queries atomic.Int64 }

func (c *counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.queries.Add(1)
	return ctx
}
func (c *counter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (c *counter) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	c.batches.Add(1)
	return ctx
}
func (c *counter) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (c *counter) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// A thousand requests that wait for one key cost the server what one costs.
func TestThousandWaiters(t *testing.T) {
	t.Parallel()
	ctx, working := context.Background(), openTest(t)
	config := working.pool.Config()
	var sent counter
	config.ConnConfig.Tracer = &sent
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	waiting, err := New(ctx, pool, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { waiting.Close() })
	lease := acquire(t, working, "k")
	store := &counting{Store: waiting}
	guard := newWaiter(store)
	defer guard.Shutdown(ctx)
	const waiters = 1000
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		together(t, waiters, func(int) error {
			request := retrysafe.Request{Key: lease.Key, Fingerprint: params("k").Fingerprint}
			_, err := guard.Do(ctx, request, answering(func() error { return errors.New("it ran twice") }))
			return err
		})
	}()
	eventually(t, "all have claimed", func() bool { return store.claims.Load() >= waiters })
	// The one of them that asks for all does so every two seconds, which gives the others time to join it.
	claimed := store.claims.Load()
	eventually(t, "all wait", func() bool { return store.claims.Load() >= claimed+2 })
	before := sent.batches.Load() + sent.queries.Load()
	if err := complete(working, lease); err != nil {
		t.Fatal(err)
	}
	<-ended
	if n := sent.batches.Load() + sent.queries.Load() - before; n > 30 {
		t.Errorf("%d waiters sent %d batches", waiters, n)
	} else {
		t.Logf("%d waiters sent %d batches while they waited, and %d to begin with", waiters, n, before)
	}
}
