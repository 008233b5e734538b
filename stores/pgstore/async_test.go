package pgstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/internal/testing/soak"
)

// startForgetful starts a server that writes what need not be on disk only after ten seconds, so that killing it loses
// that as a power cut would: the log of asynchronous commits is in the memory of its processes until then.
func startForgetful(t *testing.T) *servers.Postgres {
	t.Helper()
	return servers.StartPostgres(t, servers.PostgresOptions{Settings: map[string]string{"wal_writer_delay": "10s"}})
}

// crash takes the power of the server of a store away and gives it back.
func crash(t *testing.T, pg *servers.Postgres, s *Store) {
	t.Helper()
	pg.Kill(t)
	pg.Start(t)
	s.pool.Reset()
}

// What a crash of the server does to claims with Async, and leaves as it is.
func TestAsyncClaims(t *testing.T) {
	t.Parallel()
	pg := startForgetful(t)
	for name, test := range map[string]func(*testing.T, *servers.Postgres, *Store){
		"are lost": asyncClaimsAreLost, "beside others": asyncClaimsBesideOthers,
	} {
		t.Run(name, func(t *testing.T) { test(t, pg, openOneWorkerAt(t, pg.Database(t))) })
	}
}

// paramsAsync are those of a claim that may be lost.
func paramsAsync(id string) retrysafe.ClaimParams {
	p := params(id)
	p.Async = true
	return p
}

// Claims with Async are lost until something of their key is on disk, and the attempt that has lost its claim can write
// nothing, even if the next one got the same fence.
//
// Seen to fail with mayBeLost false (nothing is lost), with mayBeLost true (a claim without Async is lost), and with the
// owner taken out of complete.sql (the lost attempt completes the next one).
func asyncClaimsAreLost(t *testing.T, pg *servers.Postgres, s *Store) {
	execute(t, s, "CREATE TABLE charges (id text)")
	claim := func(p retrysafe.ClaimParams) retrysafe.Claim {
		t.Helper()
		c, err := s.Claim(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	inTransaction := claim(paramsAsync("completed")).Lease
	execute(t, s, `BEGIN; INSERT INTO charges VALUES ('completed'); SELECT {{schema}}.complete('`+inTransaction.Token()+`', '{}'); COMMIT`)
	settled := acquire(t, s, "waits for the disk")
	crash(t, pg, s)
	if got := claim(params("waits for the disk")); got.Verdict != retrysafe.InFlight || got.Record.Fence != settled.Fence {
		t.Errorf("a claim without Async: %v after a crash, want InFlight", got.Verdict)
	}
	if got := claim(params("completed")); got.Verdict != retrysafe.Done || value[int](t, s, "SELECT count(*) FROM charges") != 1 {
		t.Errorf("a claim with Async that was completed: %v after a crash, want Done", got.Verdict)
	}

	lost := claim(paramsAsync("lost")).Lease
	crash(t, pg, s)
	next := claim(params("lost"))
	if next.Verdict != retrysafe.Acquired || next.Record.Attempt != 1 {
		t.Fatalf("a claim with Async: %v, attempt %d after a crash, want Acquired, attempt 1", next.Verdict, next.Record.Attempt)
	}
	execute(t, s, "UPDATE {{schema}}.claims SET fence = $1 WHERE id = 'lost'", lost.Fence) // as with a clock that was set back
	for name, err := range map[string]error{
		"complete":   complete(s, lost),
		"extend":     s.Extend(t.Context(), lost, time.Minute),
		"checkpoint": s.Checkpoint(t.Context(), lost, retrysafe.StepResult{Name: "one", Data: []byte("1")}),
		"release":    s.Release(t.Context(), lost),
	} {
		if !errors.Is(err, retrysafe.ErrLeaseLost) {
			t.Errorf("%s by the attempt that has lost its claim = %v, want ErrLeaseLost", name, err)
		}
	}
	next.Lease.Fence = lost.Fence
	if err := complete(s, next.Lease); err != nil {
		t.Errorf("the attempt that has the key cannot complete it: %v", err)
	}
}

// What shares its batch with a claim that may be lost lasts all the same, and takes that claim with it.
// Seen to fail with mayBeLost true if any operation is a claim with Async.
func asyncClaimsBesideOthers(t *testing.T, pg *servers.Postgres, s *Store) {
	release := holdUp(t, s)
	var calls sync.WaitGroup
	for _, p := range []retrysafe.ClaimParams{params("lasts"), paramsAsync("beside it")} {
		calls.Go(func() {
			if _, err := s.Claim(context.Background(), p); err != nil {
				t.Error(err)
			}
		})
	}
	eventually(t, "both wait for the next batch", func() bool { return queued(s) == 2 })
	release()
	calls.Wait()
	crash(t, pg, s)
	if got := value[int](t, s, "SELECT count(*) FROM {{schema}}.claims WHERE id IN ('lasts', 'beside it')"); got != 2 {
		t.Errorf("%d of the batch's two claims are there after a crash", got)
	}
}

// Work in transactions, on a server whose power is taken away again and again, as programs see it: what was
// acknowledged was done once and stays, and nothing is there twice. Seen to fail with commit_async.sql for the session
// while complete.sql does not wait for the disk: acknowledged charges are gone.
func TestSoakPowerCuts(t *testing.T) {
	t.Parallel()
	pg := startForgetful(t)
	s := openAt(t, pg.Database(t), Options{})
	execute(t, s, "CREATE TABLE charges (id text)")
	g := retrysafe.New(s, retrysafe.Options{Policy: retrysafe.Policy{
		Lease: 3 * time.Second, OnAbandoned: retrysafe.RerunTx(), OnInFlight: retrysafe.Wait(time.Minute), AsyncClaim: true,
	}})
	ctx, end := context.WithCancel(t.Context())
	defer end()
	var acknowledged sync.Map
	var ran, done atomic.Int64
	var callers sync.WaitGroup
	for caller := range 8 {
		callers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				id := fmt.Sprint(caller, " ", n)
				request := retrysafe.Request{Key: retrysafe.Key{ID: id}}
				work := func(ctx context.Context, _ *retrysafe.Attempt) (string, error) {
					ran.Add(1)
					if err := retrysafe.SetResult(ctx, "charged"); err != nil {
						return "", err
					}
					return "charged", s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
						_, err := tx.Exec(ctx, "INSERT INTO charges VALUES ($1)", id)
						return err
					})
				}
				for ctx.Err() == nil {
					if _, err := retrysafe.Do(ctx, g, request, work); err == nil {
						acknowledged.Store(id, true)
						done.Add(1)
						break
					}
				}
			}
		})
	}
	for range soak.Times(t, 2) {
		before := done.Load()
		eventually(t, "charges after a crash", func() bool { return done.Load() > before+rand.Int64N(200) })
		crash(t, pg, s)
	}
	end()
	callers.Wait()
	if err := g.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	charged := value[map[string]int](t, s, "SELECT coalesce(jsonb_object_agg(id, n), '{}') FROM (SELECT id, count(*) AS n FROM charges GROUP BY id) all_")
	for id, n := range charged {
		if n != 1 {
			t.Errorf("%s is charged %d times", id, n)
		}
	}
	acknowledged.Range(func(id, _ any) bool {
		if charged[id.(string)] == 0 {
			t.Errorf("%s was acknowledged, and is not charged", id)
		}
		return true
	})
	if int64(len(charged)) < done.Load() || ran.Load() <= done.Load() {
		t.Errorf("%d charged, %d acknowledged, %d runs: the crashes have interrupted nothing", len(charged), done.Load(), ran.Load())
	}
	t.Logf("%d charged by %d runs", len(charged), ran.Load())
}

// A standby for which commits wait has every claim that was completed, after the primary is gone; a claim that was not
// may be missing there. Seen to fail with mayBeLost false (claims wait for the standby).
func TestAsyncClaimsAndAStandby(t *testing.T) {
	t.Parallel()
	pg := startForgetful(t)
	s := openAt(t, pg.Database(t), Options{})
	standby := pg.StartStandby(t, true)
	var leases []retrysafe.Lease
	for n := range 20 {
		c, err := s.Claim(t.Context(), paramsAsync(fmt.Sprint(n)))
		if err != nil {
			t.Fatal(err)
		}
		leases = append(leases, c.Lease)
	}
	standby.Pause(t)
	if _, err := s.Claim(t.Context(), paramsAsync("while the standby is away")); err != nil {
		t.Errorf("a claim with Async waited for the standby: %v", err)
	}
	standby.Resume(t)
	for _, l := range leases {
		if err := complete(s, l); err != nil {
			t.Fatal(err)
		}
	}
	database := value[string](t, s, "SELECT current_database()")
	pg.Kill(t)
	standby.Promote(t)
	after := openOn(t, openPool(t, standby.URL(database)), Options{})
	if got := value[int](t, after, "SELECT count(*) FROM {{schema}}.claims WHERE state = 3"); got != len(leases) {
		t.Errorf("the standby has %d of %d completed keys", got, len(leases))
	}
}
