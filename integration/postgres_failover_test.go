package integration

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/stores/pgstore"
)

// The primary is killed under load and its standby promoted. With a synchronous standby nothing acknowledged is lost,
// and no key runs twice; the pool knows both hosts and finds the one that accepts writes. The next test shows the
// losses that this test would report.
func TestFailoverToASynchronousStandbyLosesNothing(t *testing.T) {
	t.Parallel()
	lost := failOver(t, true)
	if t.Logf("%+v", lost); lost.completions > 0 || lost.claims > 0 {
		t.Error("what was acknowledged is lost")
	}
}

// Completions that an asynchronous standby had not received are lost with the primary, and a retry runs again with a
// greater fence, by which the systems that the work writes to can detect it. Here the standby is down for the last
// 300 completions.
func TestFailoverToAnAsynchronousStandbyLosesWhatItLacks(t *testing.T) {
	t.Parallel()
	lost := failOver(t, false)
	if t.Logf("%+v", lost); lost.completions < 250 || lost.claims < 250 || lost.smallerFences > 0 {
		t.Error("want the last 300 completions lost, and greater fences for their keys")
	}
}

// losses counts what was acknowledged, and how much of it the promoted server does not know.
type losses struct{ completed, claimed, completions, claims, smallerFences int }

func failOver(t *testing.T, synchronous bool) losses {
	primary := servers.StartPostgres(t, servers.PostgresOptions{})
	standby := primary.StartStandby(t, synchronous)
	store := openPostgres(t, both(t, primary, standby)+"&target_session_attrs=read-write")
	if risks, err := store.Risks(t.Context()); err != nil || (len(risks) == 0) != synchronous {
		t.Errorf("synchronous %v: risks %v, %v", synchronous, risks, err)
	}
	w := &workload{store: store}
	w.start(t.Context(), 16)
	w.reach(t, 300)
	if !synchronous {
		standby.Kill(t)
		w.reach(t, w.completed.Load()+300)
	}
	began := time.Now()
	primary.Kill(t)
	if !synchronous {
		standby.Start(t)
	}
	standby.Promote(t)
	promoted := time.Since(began)
	w.reach(t, w.completed.Load()+1)
	t.Logf("promoted after %v, first completion after %v, %d errors meanwhile", promoted, time.Since(began),
		w.failures.Load())
	w.reach(t, w.completed.Load()+300)
	w.stop()
	return w.losses(t)
}

// both returns a URL of the database postgres that names two hosts.
func both(t *testing.T, first, second *servers.Postgres) string {
	t.Helper()
	host := func(pg *servers.Postgres) string {
		u, err := url.Parse(pg.URL("postgres"))
		if err != nil {
			t.Fatal(err)
		}
		return u.Host
	}
	return strings.Replace(first.URL("postgres"), host(first), host(first)+","+host(second), 1)
}

// workload claims and completes keys, each once, and remembers what was acknowledged.
type workload struct {
	store     retrysafe.Store
	next      atomic.Int64
	completed atomic.Int64
	failures  atomic.Int64

	mu   sync.Mutex
	acks []ack
	all  sync.WaitGroup
	end  context.CancelFunc
}

// ack is a key whose claim was acknowledged.
type ack struct {
	id        string
	lease     retrysafe.Lease
	completed bool
}

func (w *workload) start(ctx context.Context, clients int) {
	ctx, w.end = context.WithCancel(ctx)
	for range clients {
		w.all.Go(func() {
			for ctx.Err() == nil {
				w.one(ctx)
			}
		})
	}
}

func (w *workload) stop() {
	w.end()
	w.all.Wait()
}

func (w *workload) one(ctx context.Context) {
	a := ack{id: fmt.Sprint("key-", w.next.Add(1))}
	p := retrysafe.ClaimParams{Key: retrysafe.Key{Scope: "load", ID: a.id}, Owner: retrysafe.NewOwner(), Lease: time.Hour}
	claim, err := w.store.Claim(ctx, p)
	if err != nil {
		w.failed(ctx)
		return
	}
	a.lease = claim.Lease
	err = w.store.Complete(ctx, claim.Lease, retrysafe.Result{Body: []byte(a.id)}, retrysafe.Retention{})
	if a.completed = err == nil; a.completed {
		w.completed.Add(1)
	} else {
		w.failed(ctx)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acks = append(w.acks, a)
}

// failed records a failure of the store and waits a moment.
func (w *workload) failed(ctx context.Context) {
	w.failures.Add(1)
	select {
	case <-time.After(10 * time.Millisecond):
	case <-ctx.Done():
	}
}

// reach waits until so many completions were acknowledged.
func (w *workload) reach(t *testing.T, n int64) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); w.completed.Load() < n; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d completions in a minute, want %d; %d failures", w.completed.Load(), n, w.failures.Load())
		}
	}
}

// losses compares the store with everything that was acknowledged.
func (w *workload) losses(t *testing.T) (l losses) {
	t.Helper()
	for _, a := range w.acks {
		p := retrysafe.ClaimParams{Key: a.lease.Key, Owner: retrysafe.NewOwner(), Lease: time.Hour}
		got, err := w.store.Claim(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		l.claimed++
		if got.Record.Fence != a.lease.Fence {
			l.claims++
		}
		if got.Record.Fence < a.lease.Fence {
			l.smallerFences++
		}
		if !a.completed {
			continue
		}
		l.completed++
		if got.Verdict != retrysafe.Done || string(got.Record.Result.Body) != a.id {
			l.completions++
		}
	}
	return l
}

// With target_session_attrs=read-write, a pool that names a standby first never uses it; a store on a standby returns
// an error instead of stale data.
func TestAReadReplicaIsNeverRead(t *testing.T) {
	t.Parallel()
	primary := servers.StartPostgres(t, servers.PostgresOptions{})
	standby := primary.StartStandby(t, false)
	store := openPostgres(t, both(t, standby, primary)+"&target_session_attrs=read-write")
	claim, err := store.Claim(t.Context(), retrysafe.ClaimParams{
		Key:   retrysafe.Key{ID: "k"},
		Owner: retrysafe.NewOwner(), Lease: time.Hour,
	})
	if err != nil || claim.Verdict != retrysafe.Acquired {
		t.Fatalf("with both hosts: %v, %v", claim.Verdict, err)
	}
	standby.Pause(t) // its data would be stale
	for range 20 {
		again, err := store.Claim(t.Context(),
			retrysafe.ClaimParams{Key: claim.Lease.Key, Owner: retrysafe.NewOwner(), Lease: time.Hour})
		if err != nil || again.Verdict != retrysafe.InFlight {
			t.Fatalf("while the standby is paused: %v, %v", again.Verdict, err)
		}
	}
	standby.Resume(t)

	wrong, err := pgstore.New(t.Context(), openPool(t, standby.URL("postgres")), pgstore.Options{})
	if err == nil {
		defer wrong.Close()
		_, err = wrong.Claim(t.Context(), retrysafe.ClaimParams{
			Key:   retrysafe.Key{ID: "k"},
			Owner: retrysafe.NewOwner(), Lease: time.Hour,
		})
	}
	if err == nil {
		t.Error("a store on a standby answers")
	}
	t.Logf("on a standby: %v", err)
}
