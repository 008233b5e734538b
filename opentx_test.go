package retrysafe_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
)

// openTx stands for a transaction of the work's own. While it is open the store does not answer, as if a row were
// locked.
type openTx struct {
	k      *kit
	commit func() error
}

// completeTx is what a store's CompleteTx does, on memstore.
func (k *kit) completeTx(ctx context.Context) (*openTx, error) {
	a, _ := retrysafe.AttemptFrom(ctx)
	if err := retrysafe.SetResult(ctx, "paid"); err != nil {
		return nil, err
	}
	tx := &openTx{k: k}
	err := a.Control().CompleteOpen(ctx, k.store, retrysafe.OpenTx{
		Save: func(l retrysafe.Lease, r retrysafe.Result, keep retrysafe.Retention) error {
			tx.commit = func() error { return k.store.Store.Complete(context.Background(), l, r, keep) }
			return nil
		},
	})
	if err == nil {
		k.store.down("claim", "extend", "release", "complete")
	}
	return tx, err
}

// end ends the transaction.
func (tx *openTx) end(commit bool) {
	if commit {
		if err := tx.commit(); err != nil {
			tx.k.Error(err)
		}
	}
	tx.k.store.up()
}

// Work that returns before its transaction has ended is told that it is in flight, whatever it returns, and the key
// ends as the transaction does. Seen to fail with settle reporting true after an error: a retryable error freed the
// key; with conclude left out of concludeOpen: the key stayed in flight; and without unlessLost: the answer of rolled
// back work was saved.
func TestTransactionThatOutlivesTheWork(t *testing.T) {
	for _, c := range []struct {
		name     string
		result   error
		commit   bool
		body     string
		then     error // what a retry is told instead of body
		replayed bool
	}{
		{name: "success, committed", commit: true, body: `"paid"`, replayed: true},
		{name: "retryable, committed", result: retrysafe.Retryable(errDown), commit: true, body: `"paid"`, replayed: true},
		{name: "error, committed", result: errDown, commit: true, body: `"paid"`, replayed: true},
		{name: "success, rolled back", then: retrysafe.ErrAbandoned},
		{name: "unknown, rolled back", result: retrysafe.Unknown(errDown), then: retrysafe.ErrAbandoned},
		{name: "retryable, rolled back", result: retrysafe.Retryable(errDown), body: "second"},
	} {
		bubble(t, retrysafe.Policy{}, func(k *kit) {
			var tx *openTx
			_, err := k.guard.Do(k.ctx, pay(), func(ctx context.Context, _ *retrysafe.Attempt) (_ retrysafe.Result, err error) {
				if tx, err = k.completeTx(ctx); err != nil {
					k.Error(err)
				}
				return retrysafe.Result{Body: []byte("not this")}, c.result
			})
			if !errors.Is(err, retrysafe.ErrInFlight) {
				k.Errorf("%s: got %v, want that it is in flight", c.name, err)
			}
			time.Sleep(time.Hour)
			tx.end(c.commit)
			time.Sleep(time.Minute)
			out, err := k.guard.Do(k.ctx, pay(), k.answer("second"))
			if !errors.Is(err, c.then) || string(out.Result.Body) != c.body || out.Replayed != c.replayed {
				k.Errorf("%s: a retry got %q, replayed %v, %v", c.name, out.Result.Body, out.Replayed, err)
			}
		})
	}
}

// If the Guard is shut down before it is known how the transaction has ended, the record decides for the next attempt.
func TestShutdownBesideAnOpenTransaction(t *testing.T) {
	bubble(t, retrysafe.Policy{}, func(k *kit) {
		var tx *openTx
		_, _ = k.guard.Do(k.ctx, pay(), func(ctx context.Context, _ *retrysafe.Attempt) (_ retrysafe.Result, err error) {
			tx, err = k.completeTx(ctx)
			return retrysafe.Result{}, err
		})
		short, cancel := context.WithTimeout(k.ctx, time.Second)
		defer cancel()
		if err := k.guard.Shutdown(short); !errors.Is(err, context.DeadlineExceeded) {
			k.Errorf("Shutdown: %v", err)
		}
		time.Sleep(time.Minute)
		if n := k.saw(retrysafe.SaveAbandoned); n != 1 {
			k.Errorf("told %d times that saving was given up", n)
		}
		tx.end(true)
	})
}

// After the commit heartbeats find no lease any more, and the work goes on. Seen to fail with the open transaction left
// out of beat: the work's context ended with ErrLeaseLost, and observers were told that the lease was taken.
func TestHeartbeatsAfterTheCommit(t *testing.T) {
	bubble(t, retrysafe.Policy{Lease: time.Minute}, func(k *kit) {
		_, err := k.guard.Do(k.ctx, pay(), func(ctx context.Context, _ *retrysafe.Attempt) (retrysafe.Result, error) {
			tx, err := k.completeTx(ctx)
			if err != nil {
				return retrysafe.Result{}, err
			}
			tx.end(true)
			time.Sleep(3 * time.Minute)
			if ctx.Err() != nil {
				k.Errorf("the context has ended: %v", context.Cause(ctx))
			}
			return retrysafe.Result{}, nil
		})
		if err != nil || k.saw(retrysafe.LeaseTaken) != 0 || k.saw(retrysafe.WorkSucceeded) != 1 {
			k.Errorf("got %v; lease taken %d, succeeded %d", err, k.saw(retrysafe.LeaseTaken), k.saw(retrysafe.WorkSucceeded))
		}
	})
}

// Seen to fail without BeginTx in CompleteOpen.
func TestCompleteOpenIsRefusedInsideAnother(t *testing.T) {
	bubble(t, retrysafe.Policy{}, func(k *kit) {
		k.guard.Do(k.ctx, pay(), func(ctx context.Context, a *retrysafe.Attempt) (retrysafe.Result, error) {
			inside, _, err := a.Control().BeginTx(ctx)
			if err != nil {
				k.Error(err)
			}
			refused := func(where string, ctx context.Context) error {
				tx, err := k.completeTx(ctx)
				if err == nil {
					k.Error("CompleteOpen inside of " + where + " has returned nil")
					tx.end(false)
				}
				return err
			}
			_ = refused("another transaction", inside)
			a.Control().RolledBack()
			_, err = retrysafe.Step(ctx, "step", func(ctx context.Context, _ string) (int, error) {
				return 0, refused("a step", ctx)
			})
			if err == nil {
				k.Error("the step has returned nil")
			}
			return retrysafe.Result{}, nil
		})
	})
}
