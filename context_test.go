package retrysafe_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/retrysafe/retrysafe"
)

// derived returns contexts that work may derive from its own.
func (k *kit) derived(ctx context.Context) []context.Context {
	type key struct{}
	canceled, stop := context.WithCancel(context.WithValue(ctx, key{}, 1))
	k.Cleanup(stop)
	bounded, stop := context.WithTimeout(canceled, time.Hour)
	k.Cleanup(stop)
	caused, end := context.WithCancelCause(bounded)
	k.Cleanup(func() { end(nil) })
	return []context.Context{ctx, canceled, bounded, caused}
}

// Seen to fail with timeLimit's Err answering Canceled, and, for the cause, with its Value answering for the caller.
func TestTimeoutEndsDerivedContexts(t *testing.T) {
	bubble(t, retrysafe.Policy{Timeout: time.Minute}, func(k *kit) {
		caller, hangUp := context.WithCancelCause(k.ctx)
		k.guard.Do(caller, pay(), func(ctx context.Context, _ *retrysafe.Attempt) (retrysafe.Result, error) {
			all := k.derived(ctx)
			hangUp(errors.New("the client hung up"))
			time.Sleep(59 * time.Second)
			for i, c := range all {
				if c.Err() != nil || context.Cause(c) != nil {
					k.Errorf("context %d ended early: %v, %v", i, c.Err(), context.Cause(c))
				}
			}
			time.Sleep(time.Second)
			synctest.Wait()
			for i, c := range append(all, k.derived(ctx)...) {
				if c.Err() != context.DeadlineExceeded || context.Cause(c) != context.DeadlineExceeded {
					k.Errorf("context %d: Err = %v, Cause = %v", i, c.Err(), context.Cause(c))
				}
			}
			return retrysafe.Result{}, nil
		})
	})
}

// Seen to fail with end forgetting the cause.
func TestLostLeaseEndsDerivedContexts(t *testing.T) {
	bubble(t, retrysafe.Policy{Lease: 30 * time.Second, OnAbandoned: retrysafe.Rerun()}, func(k *kit) {
		k.store.down("extend")
		ended := make(chan struct{})
		go k.guard.Do(k.ctx, pay(), func(ctx context.Context, _ *retrysafe.Attempt) (retrysafe.Result, error) {
			defer close(ended)
			all := k.derived(ctx)
			<-all[len(all)-1].Done()
			for i, c := range append(all, k.derived(ctx)...) {
				if c.Err() != context.Canceled || context.Cause(c) != retrysafe.ErrLeaseLost {
					k.Errorf("context %d: Err = %v, Cause = %v", i, c.Err(), context.Cause(c))
				}
			}
			return retrysafe.Result{}, nil
		})
		time.Sleep(40 * time.Second)
		k.guard.Do(k.ctx, pay(), k.answer("heir"))
		k.store.up()
		<-ended
	})
}

// Seen to fail with conclude not canceling the context.
func TestEndOfWorkEndsDerivedContexts(t *testing.T) {
	bubble(t, retrysafe.Policy{}, func(k *kit) {
		var all []context.Context
		k.guard.Do(k.ctx, pay(), func(ctx context.Context, _ *retrysafe.Attempt) (retrysafe.Result, error) {
			all = k.derived(ctx)
			return retrysafe.Result{}, nil
		})
		for i, c := range all {
			if c.Err() != context.Canceled {
				k.Errorf("context %d: Err = %v", i, c.Err())
			}
		}
	})
}

// Seen to fail with the attempt's Value not asking the real context.
func TestDerivedContextsStartNoGoroutines(t *testing.T) {
	bubble(t, retrysafe.Policy{}, func(k *kit) {
		k.guard.Do(k.ctx, pay(), func(ctx context.Context, _ *retrysafe.Attempt) (retrysafe.Result, error) {
			before := runtime.NumGoroutine()
			for range 100 {
				k.derived(ctx)
			}
			if n := runtime.NumGoroutine() - before; n > 50 {
				k.Errorf("%d goroutines for 300 derived contexts", n)
			}
			return retrysafe.Result{}, nil
		})
	})
}

// Work that asks late for its context's end, or that is followed by shorter-lived neighbours, is told in time. Seen to
// fail with timerqueue.Queue.Add always going to the end of the queue, and with the timer left as it was set for
// another entry.
func TestTimeoutsComeInTimeForAll(t *testing.T) {
	bubble(t, retrysafe.Policy{Timeout: time.Minute}, func(k *kit) {
		took := make([]time.Duration, 6)
		for i := range took {
			go k.guard.Do(k.ctx, request(string(rune('a'+i)), "raw1:a"),
				func(ctx context.Context, _ *retrysafe.Attempt) (retrysafe.Result, error) {
					began := time.Now()
					time.Sleep(time.Duration(30-7*(i%3)) * time.Second) // the first ask last
					if i == 4 {
						return retrysafe.Result{}, nil // and leaves
					}
					<-ctx.Done()
					took[i] = time.Since(began)
					return retrysafe.Result{}, nil
				})
			time.Sleep(time.Second)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		for i, d := range took {
			if i != 4 && d != time.Minute {
				k.Errorf("the time of attempt %d was up after %v", i, d)
			}
		}
	})
}

// Attempts that begin and end at different times all get their heartbeats. Seen to fail with serve leaving the timer
// alone while an entry waits, and with Remove taking the next entry along.
func TestFirstHeartbeatsComeInTimeForAll(t *testing.T) {
	bubble(t, retrysafe.Policy{Lease: 30 * time.Second}, func(k *kit) {
		for i := range 40 {
			d := time.Minute
			if i%3 == 0 {
				d = time.Duration(i) * 300 * time.Millisecond // some before their first heartbeat, some after
			}
			go k.guard.Do(k.ctx, request(string(rune('a'+i)), "raw1:a"), k.taking(d, "done"))
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		want := 0
		for i := range 40 {
			if i%3 != 0 {
				want += 5 // at 10, 20, 30, 40, 50 s; at 60 s the work ends
			} else if i*300 > 10_000 {
				want++
			}
		}
		if n := k.store.count("extend"); n < want || n > want+27 {
			k.Errorf("%d heartbeats, want %d, or one more where a heartbeat and the end of the work coincide", n, want)
		}
		if n := k.saw(retrysafe.LeaseTaken); n != 0 {
			k.Errorf("%d leases taken", n)
		}
	})
}

// A Guard forgets an attempt as soon as it has ended. Seen to fail with the entry for the first
// heartbeat not being removed: the attempt was kept until its time came.
func TestEndedAttemptIsForgotten(t *testing.T) {
	g := newGuard()
	var attempt weak.Pointer[retrysafe.Attempt]
	g.Do(t.Context(), pay(), func(ctx context.Context, a *retrysafe.Attempt) (retrysafe.Result, error) {
		attempt = weak.Make(a)
		ctx.Done()
		return retrysafe.Result{}, nil
	})
	runtime.GC()
	if attempt.Value() != nil {
		t.Error("the attempt has ended and is still in memory")
	}
	runtime.KeepAlive(g)
}

// Who looks at the context of work that has ended finds it ended, as in net/http. Seen to fail with end doing nothing
// unless the context had been used before: a wait for Done then never ended.
func TestEndOfWorkIsSeenLate(t *testing.T) {
	bubble(t, retrysafe.Policy{Timeout: -1}, func(k *kit) {
		var late context.Context
		k.guard.Do(k.ctx, pay(), func(ctx context.Context, _ *retrysafe.Attempt) (retrysafe.Result, error) {
			late = ctx
			return retrysafe.Result{}, nil
		})
		if late.Err() != context.Canceled {
			k.Errorf("Err = %v after the end of the work", late.Err())
		}
		select {
		case <-late.Done():
		default:
			k.Error("Done is open after the end of the work")
		}
	})
}
