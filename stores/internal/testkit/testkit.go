// Package testkit holds what the tests of several stores share and storetest does not offer to others:
//
//   - testkit.go: calls as tests make them, many callers at once, and waiting for what causes no event.
//   - callers.go: callers who go on while a test kills their server.
//   - relay.go: connections that break.
//   - find.go: tags, and what is found by them.
//   - tables.go: rules about the tables of the stores on SQL servers.
package testkit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// Patience is how long tests wait for what must come, on a busy machine too.
const Patience = 2 * time.Minute

// Params asks for the key with this ID, for the same request each time, by a new owner each time.
func Params(id string) retrysafe.ClaimParams {
	return retrysafe.ClaimParams{
		Key:         retrysafe.Key{Scope: "tenant", ID: id},
		Fingerprint: "raw1:one",
		Owner:       retrysafe.NewOwner(),
		Lease:       time.Minute,
	}
}

// Acquire claims a key that is free.
func Acquire(t testing.TB, s retrysafe.Store, id string) retrysafe.Lease {
	t.Helper()
	c, err := s.Claim(context.Background(), Params(id))
	if err != nil || c.Verdict != retrysafe.Acquired {
		t.Fatalf("claim of %s = %v, %v", id, c.Verdict, err)
	}
	return c.Lease
}

// Complete completes an attempt, with the ID of its key as the body.
func Complete(s retrysafe.Store, l retrysafe.Lease) error {
	return s.Complete(context.Background(), l, retrysafe.Result{Code: 200, Body: []byte(l.Key.ID)}, retrysafe.Retention{})
}

// CompleteMany leaves n ended records.
func CompleteMany(t testing.TB, s retrysafe.Store, n int) {
	t.Helper()
	const callers = 50
	Together(t, callers, func(i int) error {
		for ; i < n; i += callers {
			c, err := s.Claim(context.Background(), Params(fmt.Sprint("id ", i)))
			if err == nil {
				err = Complete(s, c.Lease)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Sweep makes one pass, and returns how many records it has swept.
func Sweep(t testing.TB, s retrysafe.Sweeper, limit int) int {
	t.Helper()
	n, err := s.Sweep(context.Background(), limit)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// SweepGivesUp checks that a pass which waits for another one minds its context. turn is that of the store's passes.
func SweepGivesUp(t testing.TB, s retrysafe.Sweeper, turn storekit.Turn) {
	t.Helper()
	if err := turn.Take(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer turn.End()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	Returns(t, func() {
		if _, err := s.Sweep(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Sweep = %v while another pass takes its time", err)
		}
	})
}

// Returns expects f to return, even if a server does not answer.
func Returns(t testing.TB, f func()) {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f()
	}()
	select {
	case <-ended:
	case <-time.After(Patience):
		t.Error("the call has not returned")
	}
}

// Guarded runs work under a key, with an answer that is known from the start, and returns what the caller is told.
func Guarded(
	t testing.TB, s retrysafe.Store, k retrysafe.Key, work func(context.Context, *retrysafe.Attempt) error,
) error {
	t.Helper()
	g := retrysafe.New(s, retrysafe.Options{})
	defer func() { _ = g.Shutdown(context.Background()) }()
	_, err := retrysafe.Do(t.Context(), g, retrysafe.Request{Key: k},
		func(ctx context.Context, a *retrysafe.Attempt) (string, error) {
			if err := retrysafe.SetResult(ctx, "charged"); err != nil {
				return "", err
			}
			return "charged", work(ctx, a)
		})
	return err
}

// Settings returns the settings that Risks names, each of which says in sentences what it loses and what to do.
func Settings(t testing.TB, s retrysafe.RiskReporter) (settings []string) {
	t.Helper()
	risks, err := s.Risks(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range risks {
		if !strings.HasSuffix(r.Loses, ".") || !strings.HasSuffix(r.Remedy, ".") {
			t.Errorf("%q: the parts of a risk are sentences", r)
		}
		settings = append(settings, r.Setting)
	}
	return settings
}

// Together calls f n times at once, and fails the test if one of them fails.
func Together(t testing.TB, n int, f func(i int) error) {
	t.Helper()
	errs := make(chan error, n)
	for i := range n {
		go func() { errs <- f(i) }()
	}
	for range n {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// Eventually waits until a condition holds that causes no event.
func Eventually(t testing.TB, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(Patience); !so(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not so after %v: %s", Patience, what)
		}
	}
}
