package httpsafe_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
)

var errRollback = errors.New("rolled back")

// inTx stands for a SQL store's InTx: it completes the attempt when work succeeds, unless the commit fails.
func (k *kit) inTx(ctx context.Context, commit error, work func()) error {
	work()
	a, ok := retrysafe.AttemptFrom(ctx)
	if !ok {
		return retrysafe.ErrNoAttempt
	}
	return a.Control().CompleteIn(k.store, func(l retrysafe.Lease, r retrysafe.Result, keep retrysafe.Retention) error {
		if commit != nil {
			return commit
		}
		return k.store.Store.Complete(context.Background(), l, r, keep)
	})
}

// Seen to fail with the seal taken out of capture: the first client then gets what was written after the commit.
func TestCommittedResponseIsSealed(t *testing.T) {
	k := newKit(t)
	k.handler = func(w http.ResponseWriter, r *http.Request) {
		err := k.inTx(r.Context(), nil, func() {
			w.Header().Set("Location", "/1")
			w.WriteHeader(http.StatusCreated)
			io.WriteString(w, "<p>committed")
		})
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Location", "/2")
		w.WriteHeader(http.StatusInternalServerError)
		for _, write := range []func() error{
			func() error { _, err := io.WriteString(w, "afterthought"); return err },
			func() error { _, err := w.Write([]byte("afterthought")); return err },
			func() error { _, err := io.Copy(w, strings.NewReader("afterthought")); return err },
			func() error { _, _, err := http.NewResponseController(w).Hijack(); return err },
		} {
			// Seen to fail with what follows recorded as another response, which no client got.
			if err := write(); err == nil || !strings.Contains(err.Error(), "saved with the transaction") {
				t.Errorf("error %v", err)
			}
		}
		// Seen to fail with an empty 200 sent at once, in place of what was saved.
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
	}
	first := k.post("k").want(201).wantBody("<p>committed").wantHeader("Location", "/1").
		wantHeader("Content-Type", "text/html; charset=utf-8")
	k.post("k").wantReplayOf(first)
	k.wantRuns(1)
	if n := k.store.completions.Load(); n != 0 {
		t.Errorf("completed %d times more", n)
	}
}

// What a handler answers after its transaction has committed is lost, and observers are told so. Seen to fail with
// late taken out of end, with each place that sets it, and with the report taken out of conclude.
func TestAnAnswerAfterTheCommitIsReported(t *testing.T) {
	for name, c := range map[string]struct {
		after func(w http.ResponseWriter)
		want  int
	}{
		"nothing":           {func(http.ResponseWriter) {}, 0},
		"the same status":   {func(w http.ResponseWriter) { w.WriteHeader(http.StatusCreated) }, 0},
		"no bytes":          {func(w http.ResponseWriter) { w.Write(nil) }, 0},
		"another status":    {func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) }, 1},
		"a body":            {func(w http.ResponseWriter) { io.WriteString(w, "more") }, 1},
		"an error":          {func(w http.ResponseWriter) { http.Error(w, "no", http.StatusConflict) }, 1},
		"what a file holds": {func(w http.ResponseWriter) { io.Copy(w, strings.NewReader("more")) }, 1},
	} {
		k := newKit(t)
		k.handler = func(w http.ResponseWriter, r *http.Request) {
			err := k.inTx(r.Context(), nil, func() {
				w.WriteHeader(http.StatusCreated)
				io.WriteString(w, "paid")
			})
			if err != nil {
				t.Error(err)
			}
			c.after(w)
		}
		first := k.post("k").want(201).wantBody("paid").wantState("executed; exp=@EXP")
		k.post("k").wantReplayOf(first)
		if n := k.discarded.Load(); int(n) != c.want {
			t.Errorf("%s: %d events, want %d", name, n, c.want)
		}
	}
}

// TestNothingWrittenInATransaction: an answer that is written after InTx would be lost. InTx fails instead, and rolls
// back. Seen to fail with a 200 without a body captured: the client and every retry got that.
func TestNothingWrittenInATransaction(t *testing.T) {
	for _, silent := range []bool{false, true} {
		k := newKit(t)
		k.handler = func(w http.ResponseWriter, r *http.Request) {
			err := k.inTx(r.Context(), nil, func() {})
			if err == nil || !strings.Contains(err.Error(), "write it inside InTx") {
				t.Errorf("error %v", err)
			}
			if !silent {
				w.Header().Set("Retry-After", "1")
				http.Error(w, "nothing was paid", http.StatusServiceUnavailable)
			}
		}
		if silent { // and continues as if nothing had happened
			first := k.post("k").want(500)
			k.post("k").wantReplayOf(first)
			continue
		}
		k.post("k").want(503).wantState("released")
		k.post("k").want(503)
		k.wantRuns(2)
	}
}

func TestReleasingStatusInATransactionIsStored(t *testing.T) {
	k := newKit(t)
	k.handler = func(w http.ResponseWriter, r *http.Request) {
		k.inTx(r.Context(), nil, func() { w.WriteHeader(http.StatusServiceUnavailable) })
	}
	first := k.post("k").want(503).wantState("executed; exp=@EXP")
	k.post("k").wantReplayOf(first)
}

// Seen to fail with completed always true.
func TestRolledBackResponseIsForgotten(t *testing.T) {
	k := newKit(t)
	k.handler = func(w http.ResponseWriter, r *http.Request) {
		err := k.inTx(r.Context(), errRollback, func() {
			w.Header().Set("Content-Length", "4")
			w.WriteHeader(http.StatusCreated)
			io.WriteString(w, "paid")
		})
		if !errors.Is(err, errRollback) {
			t.Errorf("error %v", err)
		}
		http.Error(w, "conflict", http.StatusConflict)
	}
	first := k.post("k").want(409).wantBody("conflict\n")
	k.post("k").wantReplayOf(first)
}

// What a transaction's function has written before it failed is not the answer. Seen to fail with RolledBack taken out:
// the client got 201, and so did every retry.
func TestResponseOfAFailedTransactionIsForgotten(t *testing.T) {
	for _, c := range []struct {
		then func(w http.ResponseWriter)
		want int
	}{
		{func(w http.ResponseWriter) { http.Error(w, "conflict", http.StatusConflict) }, 409},
		{func(http.ResponseWriter) {}, 500},
	} {
		k := newKit(t)
		k.handler = func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusCreated)
			io.WriteString(w, "paid")
			a, _ := retrysafe.AttemptFrom(r.Context())
			a.Control().RolledBack()
			c.then(w)
		}
		first := k.post("k").want(c.want)
		k.post("k").wantReplayOf(first)
	}
}

// A handler that says "try again" of a transaction which may have been committed frees nothing. Seen to fail with
// inDoubt left out of conclude: the retry ran, with what the first attempt had committed; and with errReleased
// asked for first in appendStatus.
func TestTransactionInDoubtIsNotReleased(t *testing.T) {
	k := newKit(t)
	k.handler = func(w http.ResponseWriter, r *http.Request) {
		if err := k.inTx(r.Context(), retrysafe.Unknown(errRollback),
			func() { w.WriteHeader(http.StatusCreated) }); err == nil {
			t.Error("InTx has returned nil")
		}
		w.Header().Set("Retry-After", "1")
		http.Error(w, "try again", http.StatusServiceUnavailable)
	}
	k.post("k").want(503).wantState("unknown")
	k.post("k").want(500).wantState("unknown")
	k.wantRuns(1)
}

func TestRolledBackAndTriedAgain(t *testing.T) {
	k := newKit(t)
	k.handler = func(w http.ResponseWriter, r *http.Request) {
		for _, commit := range []error{errRollback, errRollback, nil} {
			k.inTx(r.Context(), commit, func() {
				w.WriteHeader(http.StatusCreated)
				io.WriteString(w, "paid")
			})
		}
	}
	first := k.post("k").want(201).wantBody("paid")
	k.post("k").wantReplayOf(first)
}

func TestRolledBackAndSilent(t *testing.T) {
	k := newKit(t)
	k.handler = func(w http.ResponseWriter, r *http.Request) {
		k.inTx(r.Context(), errRollback, func() { io.WriteString(w, "paid") })
	}
	k.post("k").want(500).wantBody("")
}

// takeOver makes another attempt take key k over while the handler runs.
func (k *kit) takeOver() {
	k.Helper()
	k.pass(time.Minute)
	key := retrysafe.Key{Scope: "alice", ID: "k"}
	known, err := k.store.Inspect(context.Background(), key.Digest())
	if err != nil || len(known) == 0 {
		k.Fatalf("%v, %v", known, err)
	}
	c, err := k.store.Claim(context.Background(), retrysafe.ClaimParams{
		Key: key, Owner: retrysafe.NewOwner(), Lease: time.Minute, Fingerprint: known[0].Fingerprint, TakeOver: true,
	})
	if err != nil || c.Verdict != retrysafe.Acquired {
		k.Fatalf("%v, %v", c.Verdict, err)
	}
}

// Seen to fail with takeBack leaving the header alone.
func TestZombieAnswersInFlight(t *testing.T) {
	k := newKit(t)
	k.handler = func(w http.ResponseWriter, r *http.Request) {
		k.takeOver()
		w.Header().Set("Set-Cookie", "secret=1")
		w.WriteHeader(http.StatusCreated)
		io.WriteString(w, "zombie")
	}
	a := k.post("k").wantState("in-flight").wantHeader("Set-Cookie", "").wantHeader("Retry-After", "1")
	a.wantProblem(409, httpsafe.RequestInFlight)
}

func TestZombieThatHasFlushedSaysNoMore(t *testing.T) {
	k := newKit(t)
	k.handler = func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "begun")
		w.(http.Flusher).Flush()
		k.takeOver()
	}
	k.post("k").want(200).wantBody("begun")
}

// TestEndedRecorder: a handler that continues to write, or to read the body, after it has returned changes no other
// answer. Seen to fail (a data race, and foreign bytes) with the states "ended" and "closed" taken out.
func TestEndedRecorder(t *testing.T) {
	k := newKit(t)
	var left []http.ResponseWriter
	var bodies []io.Reader
	k.handler = func(w http.ResponseWriter, r *http.Request) {
		left, bodies = append(left, w), append(bodies, r.Body)
		io.WriteString(w, r.Header.Get("Idempotency-Key"))
	}
	k.post("first").wantBody("first")
	stop, leaking := make(chan struct{}), sync.WaitGroup{}
	leak := func() {
		if _, err := left[0].Write([]byte("leaked")); err == nil {
			t.Error("a write after the handler's end succeeded")
		}
		if n, err := bodies[0].Read(make([]byte, 8)); err == nil || n != 0 {
			t.Errorf("read %d bytes, %v", n, err)
		}
	}
	leak()
	leaking.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				leak()
			}
		}
	})
	other := newKit(t)
	other.handler = func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "clean") }
	for i := range 200 {
		other.post("k" + strings.Repeat("i", i)).wantBody("clean")
	}
	close(stop)
	leaking.Wait()
}

func TestReleaseAndUnknownOutsideOfAnAttempt(t *testing.T) {
	for _, err := range []error{httpsafe.Release(context.Background()), httpsafe.Unknown(context.Background())} {
		if !errors.Is(err, retrysafe.ErrNoAttempt) {
			t.Errorf("error %v", err)
		}
	}
}

func TestAmbiguousPolicies(t *testing.T) {
	for _, c := range []struct {
		policy       retrysafe.AmbiguousPolicy
		first, retry int
		state        string
		runs         int64
	}{
		{retrysafe.AmbiguousStore, 502, 502, "executed; exp=@EXP", 1},
		{retrysafe.AmbiguousRelease, 502, 502, "released", 2},
		{retrysafe.AmbiguousUnknown, 502, 500, "unknown", 1},
	} {
		k := newKit(t)
		k.options.Ambiguous = c.policy
		k.handler = func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusBadGateway) }
		k.post("k").want(c.first).wantState(c.state)
		k.post("k").want(c.retry)
		k.wantRuns(c.runs)

		k = newKit(t)
		k.options.Ambiguous = c.policy
		k.handler = func(w http.ResponseWriter, r *http.Request) { panic("broken") }
		wantPanic(k, "broken", func() { k.post("k") })
		if c.policy == retrysafe.AmbiguousRelease {
			wantPanic(k, "broken", func() { k.post("k") })
		} else {
			k.post("k").wantProblem(500, httpsafe.OutcomeUnknown)
		}
		k.wantRuns(c.runs)
	}
}

// TestSavedBeforeSeen: the client sees nothing before the record is saved.
// Seen to fail with WriteHeader and Write passed through.
func TestSavedBeforeSeen(t *testing.T) {
	k := newKit(t)
	seen := &firstByte{}
	k.store.beforeComplete = func() {
		if seen.status != 0 {
			t.Error("the client saw the answer before it was saved")
		}
	}
	k.ServeHTTP(seen, request("k"))
	if seen.status != 201 || k.store.completions.Load() != 1 {
		t.Errorf("status %d, %d completions", seen.status, k.store.completions.Load())
	}
}

type firstByte struct {
	h      http.Header
	status int
}

func (w *firstByte) Header() http.Header {
	if w.h == nil {
		w.h = http.Header{}
	}
	return w.h
}
func (w *firstByte) WriteHeader(status int)      { w.status = status }
func (w *firstByte) Write(p []byte) (int, error) { return len(p), nil }

// TestSavingGoesOnFromOwnMemory: a result that is saved in the background is not overwritten by later requests.
// Seen to fail with Clone taken out of the root's unsaved.add and the memory handed back whether or not it was saved.
func TestSavingGoesOnFromOwnMemory(t *testing.T) {
	k := newKit(t)
	k.policy.HoldUnsaved = -1
	k.handler = func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Header.Get("Idempotency-Key")) }
	k.store.fail(nil, errDown)
	k.post("slow").want(200).wantState("executed; stored=?0")
	for range 50 {
		k.post("fast").want(200)
		k.post("xxxx" + strings.Repeat("y", int(k.ran.Load()))).want(200)
	}
	k.store.fail(nil, nil)
	if err := k.guard.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	later := newKit(t)
	later.store = k.store
	later.post("slow").wantBody("slow").wantState("replayed; exp=@EXP")
}

// A handler that commits its own transaction after CompleteTx: the response written before CompleteTx is the answer if
// the transaction is committed, and is forgotten if it is not. Seen to fail with Completed not asking for the record:
// what was written after the commit was discarded without an error.
func TestResponseOfATransactionThatTheHandlerCommits(t *testing.T) {
	for _, c := range []struct {
		commit bool
		after  string // what the handler answers then
		want   int
		state  string
	}{
		{commit: true, want: 201, state: "executed; exp=@EXP"},
		{commit: true, after: "afterthought", want: 201, state: "executed; exp=@EXP"},
		{after: "conflict", want: 409, state: "executed; exp=@EXP"},
		{want: 500, state: "unknown"},
	} {
		k := newKit(t)
		k.options.Ambiguous = retrysafe.AmbiguousUnknown
		k.handler = func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusCreated)
			io.WriteString(w, "paid")
			commit := func() error { return errRollback }
			a, _ := retrysafe.AttemptFrom(r.Context())
			if err := a.Control().CompleteOpen(r.Context(), k.store, retrysafe.OpenTx{
				Save: func(l retrysafe.Lease, r retrysafe.Result, keep retrysafe.Retention) error {
					commit = func() error { return k.store.Store.Complete(context.Background(), l, r, keep) }
					return nil
				},
			}); err != nil {
				t.Error(err)
			}
			if c.commit {
				if err := commit(); err != nil {
					t.Error(err)
				}
			}
			if c.after != "" {
				w.WriteHeader(http.StatusConflict)
				if _, err := io.WriteString(w, c.after); (err != nil) != c.commit {
					t.Errorf("write after the end of the transaction: %v", err)
				}
			}
		}
		first := k.post("k").want(c.want).wantState(c.state)
		if c.state == "unknown" {
			k.post("k").want(500).wantState("unknown")
			continue
		}
		k.post("k").wantReplayOf(first)
		k.wantRuns(1)
	}
}
