package redisstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/internal/testing/soak"
)

// Nothing that was acknowledged is lost when the server is killed with SIGKILL while 16 callers write, with appendonly
// yes and appendfsync always.
//
// What the test shows is that the server writes to its file before it answers. SIGKILL leaves the file system's cache
// alone, so that the test cannot show that the file has been synced to the disk as well: that is what appendfsync is
// about, and is documented by the makers of Redis. TestKillWithoutFileLosesAll shows that a loss would be seen.
func TestSoakKilledServerLosesNothing(t *testing.T) {
	t.Parallel()
	r := servers.StartRedis(t, servers.RedisOptions{})
	s := openOn(t, connect(t, r.Address()), Options{Timeout: 2 * time.Minute})
	var claimed, completed int
	for round := range soak.Times(t, 3) {
		w := writeUntilKilled(t, s, r, round)
		lostClaims, lostResults := w.lost(t, s)
		if lostClaims+lostResults > 0 {
			t.Errorf("round %d: lost %d of %d claims and %d of %d completions", round, lostClaims, len(w.claimed),
				lostResults, len(w.completed))
		}
		claimed, completed = claimed+len(w.claimed), completed+len(w.completed)
	}
	t.Logf("0 of %d claims and %d completions lost", claimed, completed)
}

// A server without an append-only file loses everything when it is killed.
func TestKillWithoutFileLosesAll(t *testing.T) {
	t.Parallel()
	r := startSet(t, map[string]string{"appendonly": "no"})
	s := openOn(t, connect(t, r.Address()), Options{Timeout: 2 * time.Minute})
	w := writeUntilKilled(t, s, r, 0)
	if claims, results := w.lost(t, s); claims == 0 || results == 0 {
		t.Errorf("lost %d of %d claims and %d of %d completions, want all that came before the kill", claims, len(w.claimed),
			results, len(w.completed))
	}
}

// written is what a store has acknowledged.
type written struct {
	mu        sync.Mutex
	claimed   []retrysafe.Lease
	completed []retrysafe.Lease
	killed    bool
}

// writeUntilKilled claims and completes keys from 16 callers, kills the server in between, starts it again, and lets
// each caller finish its last call.
func writeUntilKilled(t *testing.T, s *Store, r *servers.Redis, round int) *written {
	t.Helper()
	w := &written{}
	enough := make(chan struct{})
	var once sync.Once
	var wg sync.WaitGroup
	for caller := range 16 {
		wg.Go(func() {
			for i := 0; w.goesOn(); i++ {
				if err := w.write(s, fmt.Sprint(round, " ", caller, " ", i)); err != nil {
					t.Error(err)
					return
				}
				if i == 20 {
					once.Do(func() { close(enough) })
				}
			}
		})
	}
	<-enough
	r.Kill(t)
	w.stop()
	r.Start(t)
	wg.Wait()
	return w
}

func (w *written) goesOn() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.killed
}

func (w *written) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.killed = true
}

// write claims a key and completes it. What was acknowledged after the kill does not count: the server has started
// again by then.
func (w *written) write(s *Store, id string) error {
	c, err := s.Claim(context.Background(), params(id))
	if err != nil || c.Verdict != retrysafe.Acquired {
		return fmt.Errorf("claim: %v, %w", c.Verdict, err)
	}
	if !w.note(&w.claimed, c.Lease) {
		return nil
	}
	r := retrysafe.Result{Body: []byte(id)}
	err = s.Complete(context.Background(), c.Lease, r, retrysafe.Retention{})
	if errors.Is(err, retrysafe.ErrLeaseLost) {
		return nil // the claim is lost, and counted as such
	}
	if err != nil {
		return fmt.Errorf("complete: %w", err)
	}
	w.note(&w.completed, c.Lease)
	return nil
}

func (w *written) note(list *[]retrysafe.Lease, l retrysafe.Lease) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.killed {
		return false
	}
	*list = append(*list, l)
	return true
}

// lost counts what the server has forgotten.
func (w *written) lost(t *testing.T, s *Store) (claims, results int) {
	t.Helper()
	for _, l := range w.claimed {
		c, err := s.Claim(context.Background(), params(l.Key.ID))
		if err != nil {
			t.Fatal(err)
		}
		if c.Record.FirstFence != l.Fence {
			claims++
		}
	}
	for _, l := range w.completed {
		c, err := s.Claim(context.Background(), params(l.Key.ID))
		if err != nil {
			t.Fatal(err)
		}
		if c.Verdict != retrysafe.Done || string(c.Record.Result.Body) != l.Key.ID {
			results++
		}
	}
	return claims, results
}
