package retrysafe_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

func TestRetryGetsTheFirstAnswer(t *testing.T) {
	bubble(t, retrysafe.Policy{}, func(k *kit) {
		k.wantAnswer(pay(), k.answer("first"), "first", false)
		k.wantAnswer(pay(), k.answer("second"), "first", true)
		k.wantRuns(1)
	})
}

// Seen to fail with the claim taken out of decide: 200 runs instead of one.
func TestStormOnOneKeyRunsOnce(t *testing.T) {
	for name, policy := range map[string]retrysafe.Policy{
		"reject": {},
		"wait":   {OnInFlight: retrysafe.Wait(time.Minute)},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKit(t, policy)
			var all sync.WaitGroup
			start := make(chan struct{})
			for range 200 {
				all.Go(func() {
					<-start
					out, err := k.guard.Do(k.ctx, pay(), k.answer("one"))
					if err == nil && string(out.Result.Body) != "one" {
						t.Errorf("answer %q", out.Result.Body)
					}
					refused := name == "reject" && errors.Is(err, retrysafe.ErrInFlight)
					if err != nil && !refused {
						t.Error(err)
					}
				})
			}
			close(start)
			all.Wait()
			k.wantRuns(1)
		})
	}
}

func TestStormOnManyKeysRunsEachOnce(t *testing.T) {
	k := newKit(t, retrysafe.Policy{OnInFlight: retrysafe.Wait(time.Minute)})
	var all sync.WaitGroup
	for i := range 3000 {
		id := fmt.Sprint("key-", i%1000)
		all.Go(func() {
			out, err := k.guard.Do(k.ctx, request(id, "raw1:a"), k.answer(id))
			if err != nil || string(out.Result.Body) != id {
				t.Errorf("%s: %q, %v", id, out.Result.Body, err)
			}
		})
	}
	all.Wait()
	k.wantRuns(1000)
}

// Seen to fail with the mismatch test behind the verdicts: the other request got the first one's answer.
func TestAnotherRequestIsRefusedInEveryState(t *testing.T) {
	other := request("pay-1", "raw1:b")
	bubble(t, retrysafe.Policy{}, func(k *kit) { // succeeded
		k.wantAnswer(pay(), k.answer("first"), "first", false)
		k.wantRefusal(other, retrysafe.ErrMismatch)
		k.wantAnswer(pay(), k.answer("second"), "first", true) // the record is unharmed
	})
	bubble(t, retrysafe.Policy{}, func(k *kit) { // failed
		k.guard.Do(k.ctx, pay(), k.failing(errors.New("declined")))
		k.wantRefusal(other, retrysafe.ErrMismatch)
	})
	bubble(t, retrysafe.Policy{OnAbandoned: retrysafe.Rerun()}, func(k *kit) { // abandoned
		k.crash()
		k.wantRefusal(other, retrysafe.ErrMismatch)
	})
	bubble(t, retrysafe.Policy{OnInFlight: retrysafe.Wait(time.Minute)}, func(k *kit) { // in flight
		go k.guard.Do(k.ctx, pay(), k.taking(time.Minute, "slow"))
		synctest.Wait()
		k.wantRefusal(other, retrysafe.ErrMismatch)
	})
	bubble(t, retrysafe.Policy{}, func(k *kit) { // released after a step
		k.guard.Do(k.ctx, pay(), func(ctx context.Context, a *retrysafe.Attempt) (retrysafe.Result, error) {
			(&checkout{}).work(ctx, a)
			return retrysafe.Result{}, retrysafe.Retryable(errors.New("busy"))
		})
		k.wantRefusal(other, retrysafe.ErrMismatch)
	})
	bubble(t, retrysafe.Policy{Retention: retrysafe.Retention{Replay: time.Minute, Key: time.Hour}}, func(k *kit) {
		k.wantAnswer(pay(), k.answer("first"), "first", false)
		time.Sleep(2 * time.Minute)
		k.wantRefusal(other, retrysafe.ErrMismatch)
	})
}

func TestFingerprintsOfAnotherAlgorithmMatch(t *testing.T) {
	bubble(t, retrysafe.Policy{}, func(k *kit) {
		k.wantAnswer(pay(), k.answer("first"), "first", false)
		k.wantAnswer(request("pay-1", "json1:x"), k.answer("second"), "first", true)
		if k.saw(retrysafe.FingerprintIncomparable) != 1 {
			k.Error("the observer was not told")
		}
	})
	bubble(t, retrysafe.Policy{OnAbandoned: retrysafe.Rerun()}, func(k *kit) {
		k.crash()
		k.wantAnswer(request("pay-1", "json1:x"), k.answer("rerun"), "rerun", false)
	})
}

func TestFailureIsReplayed(t *testing.T) {
	declined := errors.New("card declined")
	bubble(t, retrysafe.Policy{}, func(k *kit) {
		for range 3 {
			_, err := k.guard.Do(k.ctx, pay(), k.failing(retrysafe.TerminalCode(402, declined)))
			var f *retrysafe.Failure
			if !errors.As(err, &f) || f.Code != 402 || f.Message != "card declined" {
				k.Errorf("Do = %#v", err)
			}
			if errors.Is(err, declined) {
				k.Error("the first caller can tell what a replay cannot")
			}
		}
		k.wantRuns(1)
	})
}

// What an error without a mark means is for OnAbandoned to say, unless the work's time was over. A mark always counts.
// Seen to fail with ClassStore for each of them; the timeouts alone with the look at the context taken out of classOf,
// and the last with no look at InDoubt in conclude.
func TestErrorWithoutAMark(t *testing.T) {
	bank := errors.New("connection reset")
	nothing := func(context.Context, *retrysafe.Attempt, retrysafe.Record) (*retrysafe.Result, error) {
		return nil, nil
	}
	late := func(ctx context.Context, _ *retrysafe.Attempt) error { <-ctx.Done(); return ctx.Err() }
	for _, c := range []struct {
		name   string
		policy retrysafe.AbandonedPolicy
		fail   func(context.Context, *retrysafe.Attempt) error
		end    retrysafe.EventKind
		again  bool // a retry runs the work
	}{
		{"refuse", retrysafe.Refuse(), nil, retrysafe.WorkFailed, false},
		{"rerun", retrysafe.Rerun(), nil, retrysafe.WorkUnknown, true},
		{"reconcile", retrysafe.Reconcile(nothing), nil, retrysafe.WorkUnknown, true},
		{"rerun tx", retrysafe.RerunTx(), nil, retrysafe.WorkReleased, true},
		{"refuse, timeout", retrysafe.Refuse(), late, retrysafe.WorkUnknown, false},
		{"rerun, timeout", retrysafe.Rerun(), late, retrysafe.WorkUnknown, true},
		{"rerun tx, timeout", retrysafe.RerunTx(), late, retrysafe.WorkUnknown, true},
		{"rerun tx, terminal", retrysafe.RerunTx(), func(context.Context, *retrysafe.Attempt) error {
			return retrysafe.Terminal(bank)
		}, retrysafe.WorkFailed, false},
		{"rerun tx, in doubt", retrysafe.RerunTx(), func(_ context.Context, a *retrysafe.Attempt) error {
			a.Control().InDoubt()
			return bank
		}, retrysafe.WorkUnknown, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			// It ends between two heartbeats: one of that moment would keep the key for a moment more.
			policy := retrysafe.Policy{OnAbandoned: c.policy, Timeout: 55 * time.Second, Lease: 30 * time.Second}
			bubble(t, policy, func(k *kit) {
				_, err := k.guard.Do(k.ctx, pay(), func(ctx context.Context, a *retrysafe.Attempt) (retrysafe.Result, error) {
					k.ran.Add(1)
					if c.fail == nil {
						return retrysafe.Result{}, bank
					}
					return retrysafe.Result{}, c.fail(ctx, a)
				})
				if err == nil || k.saw(c.end) != 1 {
					t.Errorf("Do = %v, and no %v", err, c.end)
				}
				_, err = k.guard.Do(k.ctx, pay(), k.answer("again"))
				if again := err == nil; again != c.again || k.ran.Load() != map[bool]int64{false: 1, true: 2}[again] {
					t.Errorf("the retry got %v after %d runs; want another run: %v", err, k.ran.Load(), c.again)
				}
			})
		})
	}
}

func TestRetryableErrorFreesTheKey(t *testing.T) {
	busy := errors.New("busy")
	bubble(t, retrysafe.Policy{}, func(k *kit) {
		if _, err := k.guard.Do(k.ctx, pay(), k.failing(retrysafe.Retryable(busy))); !errors.Is(err, busy) {
			k.Errorf("Do = %v", err)
		}
		k.wantAnswer(request("pay-1", "raw1:b"), k.answer("second"), "second", false)
		k.wantRuns(2)
	})
}

// Work that panics or ends its goroutine may have had its effect, like work whose process was killed: Refuse refuses
// and Rerun goes on. Seen to fail with "the operation panicked" saved as a final failure, and, for Goexit, with the
// deferred call in do replaced by recover().
func TestPanicAndGoexitAbandonTheKey(t *testing.T) {
	ends := map[string]func(){"panic": func() { panic("boom") }, "Goexit": runtime.Goexit}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			bubble(t, retrysafe.Policy{}, func(k *kit) {
				var recovered any
				var work sync.WaitGroup
				work.Go(func() {
					defer func() { recovered = recover() }()
					k.guard.Do(k.ctx, pay(), func(context.Context, *retrysafe.Attempt) (retrysafe.Result, error) {
						end()
						return retrysafe.Result{}, nil
					})
				})
				work.Wait()
				if (name == "panic") != (recovered == "boom") {
					k.Errorf("recovered %v", recovered)
				}
				k.wantRefusal(pay(), retrysafe.ErrAbandoned)
				if k.saw(retrysafe.WorkUnknown) != 1 {
					k.Error("the observer was not told")
				}
				k.guard = k.guard.With(retrysafe.Policy{OnAbandoned: retrysafe.Rerun()})
				k.wantAnswer(pay(), k.answer("rerun"), "rerun", false)
			})
		})
	}
}

// Seen to fail with the attempt's context derived from the caller's: the completion was refused by its context.
func TestCallerHangsUpRecordStays(t *testing.T) {
	bubble(t, retrysafe.Policy{}, func(k *kit) {
		ctx, hangUp := context.WithCancel(k.ctx)
		out, err := k.guard.Do(ctx, pay(), func(work context.Context, a *retrysafe.Attempt) (retrysafe.Result, error) {
			hangUp()
			if work.Err() != nil {
				k.Error("the work was told of the caller's hanging up")
			}
			return k.answer("done")(work, a)
		})
		if err != nil || !out.Stored {
			k.Errorf("Do = %+v, %v", out, err)
		}
		k.wantAnswer(pay(), k.answer("again"), "done", true)
	})
}

func TestWorkHasItsOwnDeadline(t *testing.T) {
	bubble(t, retrysafe.Policy{Timeout: time.Minute}, func(k *kit) {
		began := time.Now()
		k.guard.Do(k.ctx, pay(), func(ctx context.Context, _ *retrysafe.Attempt) (retrysafe.Result, error) {
			if d, ok := ctx.Deadline(); !ok || d.Sub(began) != time.Minute {
				k.Errorf("deadline %v, %v", d, ok)
			}
			<-ctx.Done()
			return retrysafe.Result{}, ctx.Err()
		})
		if took := time.Since(began); took != time.Minute {
			k.Errorf("the work ended after %v", took)
		}
	})
}

func TestOversizeResultIsDoneButNotReplayable(t *testing.T) {
	bubble(t, retrysafe.Policy{MaxResult: 10}, func(k *kit) {
		k.wantAnswer(pay(), k.answer("0123456789"), "0123456789", false)
		big := request("pay-2", "raw1:a")
		k.guard.Do(k.ctx, big, k.answer("0123456789+"))
		out, err := k.guard.Do(k.ctx, big, k.answer("again"))
		if err != nil || !out.Result.Omitted || !out.Replayed || out.Result.Code != 201 {
			k.Errorf("Do = %+v, %v", out, err)
		}
		k.wantRuns(2)
		// Seen to fail with replay telling AnswerReplayed of it: it counted as a hit.
		if k.saw(retrysafe.AnswerOmitted) != 1 || k.saw(retrysafe.AnswerReplayed) != 0 {
			k.Error("the observer was not told that the answer is missing")
		}
	})
}

func TestRetentionWindows(t *testing.T) {
	keep := retrysafe.Retention{Replay: time.Hour, Key: 2 * time.Hour}
	bubble(t, retrysafe.Policy{Retention: keep}, func(k *kit) {
		k.wantAnswer(pay(), k.answer("first"), "first", false)
		time.Sleep(time.Hour - time.Second)
		k.wantAnswer(pay(), k.answer("second"), "first", true)
		time.Sleep(time.Second)
		k.wantRefusal(pay(), retrysafe.ErrNotReplayable)
		time.Sleep(time.Hour - time.Second)
		k.wantRefusal(pay(), retrysafe.ErrNotReplayable)
		time.Sleep(time.Second)
		k.wantAnswer(pay(), k.answer("third"), "third", false)
	})
}

// A failure is answered for less long than a success: after its own windows the same request runs again, with the same
// key. That holds too for an end that the store could not save at once, and for one inside a transaction.
//
// Seen to fail with Retention in place of RetentionOf, in save, in record and in AttemptControl.complete.
func TestFailuresHaveTheirOwnRetention(t *testing.T) {
	policy := retrysafe.Policy{
		Retention:        retrysafe.Retention{Replay: 24 * time.Hour, Key: 48 * time.Hour},
		FailureRetention: retrysafe.Retention{Replay: time.Minute, Key: 2 * time.Minute},
	}
	declined := retrysafe.TerminalCode(402, errors.New("the card was declined"))
	for name, end := range map[string]func(k *kit){
		"saved at once": func(k *kit) {
			out, err := k.guard.Do(k.ctx, pay(), k.failing(declined))
			if err == nil || !out.Stored || out.ReplayLeft != time.Minute {
				k.Errorf("declined: %+v, %v", out, err)
			}
		},
		"saved later": func(k *kit) {
			if out, err := k.endInOutage("", declined); err == nil || out.Stored {
				k.Errorf("declined, not saved: %+v, %v", out, err)
			}
			if out, err := k.guard.Do(k.ctx, pay(), nil); err == nil || !out.Replayed || out.ReplayLeft != time.Minute {
				k.Errorf("replayed from memory: %+v, %v", out, err)
			}
			k.store.up()
			time.Sleep(10 * time.Second) // until it is saved
			if out, err := k.guard.Do(k.ctx, pay(), nil); err == nil || !out.Stored {
				k.Errorf("saved late: %+v, %v", out, err)
			}
		},
		"in a transaction": func(k *kit) {
			_, err := k.guard.Do(k.ctx, pay(), func(ctx context.Context, a *retrysafe.Attempt) (retrysafe.Result, error) {
				c := a.Control()
				c.Capture(func() (retrysafe.Result, error) { return retrysafe.Result{Failed: true, Code: 402}, nil })
				if _, _, err := c.BeginTx(ctx); err != nil {
					return retrysafe.Result{}, err
				}
				return retrysafe.Result{}, c.CompleteIn(k.store, func(
					l retrysafe.Lease, r retrysafe.Result, keep retrysafe.Retention,
				) error {
					return k.store.Complete(ctx, l, r, keep)
				})
			})
			if err != nil {
				k.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, policy, func(k *kit) {
				end(k)
				time.Sleep(time.Minute + time.Second)
				k.wantRefusal(pay(), retrysafe.ErrNotReplayable)
				time.Sleep(time.Minute)
				k.wantAnswer(pay(), k.answer("paid"), "paid", false)
				time.Sleep(23 * time.Hour)
				k.wantAnswer(pay(), k.answer("must not run"), "paid", true)
			})
		})
	}
	if got := retrysafe.New(newFaulty(), retrysafe.Options{Policy: retrysafe.Policy{
		Retention: retrysafe.Retention{Key: 48 * time.Hour},
	}}).Policy(); got.FailureRetention != got.Retention {
		t.Errorf("not set: failures are kept as %+v, and successes as %+v", got.FailureRetention, got.Retention)
	}
}

func TestInvalidKeysAreRefused(t *testing.T) {
	bubble(t, retrysafe.Policy{}, func(k *kit) {
		long := make([]byte, retrysafe.MaxKeyBytes+1)
		k.wantRefusal(request("", ""), retrysafe.ErrInvalidKey)
		k.wantRefusal(request(string(long), ""), retrysafe.ErrInvalidKey)
		k.wantRefusal(retrysafe.Request{Key: retrysafe.Key{Scope: string(long), ID: "a"}}, retrysafe.ErrInvalidKey)
		k.wantAnswer(request(string(long[1:]), ""), k.answer("ok"), "ok", false)
	})
}

func TestScopesAreApart(t *testing.T) {
	bubble(t, retrysafe.Policy{}, func(k *kit) {
		bob := retrysafe.Request{Key: retrysafe.Key{Scope: "bob", ID: "pay-1"}, Fingerprint: "raw1:a"}
		k.wantAnswer(pay(), k.answer("alice's"), "alice's", false)
		k.wantAnswer(bob, k.answer("bob's"), "bob's", false)
	})
}

func TestWithMakesAnException(t *testing.T) {
	g := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{Policy: retrysafe.Policy{Lease: time.Minute}})
	p := g.With(retrysafe.Policy{OnAbandoned: retrysafe.Rerun(), Retention: retrysafe.Retention{Key: time.Hour}}).Policy()
	if p.Lease != time.Minute || p.Retention.Replay != time.Hour || p.Retention.Audit != time.Hour {
		t.Errorf("policy %+v", p)
	}
	if g.Policy().Retention.Key != retrysafe.DefaultRetention {
		t.Error("With changed the guard that it was called on")
	}
}

// What is not set stays as it was given. Seen to fail with the Retention replaced as a whole: the key was free after an
// hour.
func TestWithKeepsTheOtherWindows(t *testing.T) {
	day := 24 * time.Hour
	long := newGuard().With(retrysafe.Policy{Retention: retrysafe.Retention{Key: 30 * day, Audit: 90 * day}})
	want := retrysafe.Retention{Replay: time.Hour, Key: 30 * day, Audit: 90 * day}
	if got := long.With(retrysafe.Policy{Retention: retrysafe.Retention{Replay: time.Hour}}).Policy().
		Retention; got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Seen to fail with String, GoString or LogValue taken out of Attempt.
func TestAttemptDoesNotShowItsKey(t *testing.T) {
	bubble(t, retrysafe.Policy{}, func(k *kit) {
		k.guard.Do(k.ctx, request("secret-id", ""), func(_ context.Context, a *retrysafe.Attempt) (retrysafe.Result, error) {
			var log strings.Builder
			slog.New(slog.NewTextHandler(&log, nil)).Info("work", "attempt", a)
			slog.New(slog.NewJSONHandler(&log, nil)).Info("work", "attempt", a)
			for _, text := range []string{fmt.Sprint(a), fmt.Sprintf("%+v %s", a, a), fmt.Sprintf("%#v", a), log.String()} {
				if strings.Contains(text, "secret-id") || !strings.Contains(text, a.Key().Digest().String()) {
					k.Errorf("the attempt prints as %s", text)
				}
			}
			return retrysafe.Result{}, nil
		})
	})
}

func TestPoliciesSayWhatTheyAre(t *testing.T) {
	p := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{}).Policy()
	got := fmt.Sprint(p.OnInFlight, ", ", p.OnAbandoned, ", ", p.OnStoreError, ", ", retrysafe.Wait(time.Second), ", ",
		retrysafe.Rerun(), ", ", retrysafe.Reconcile(nil), ", ", retrysafe.FailOpen)
	if want := "reject, refuse, fail closed, wait 1s, rerun, reconcile, fail open"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A lease of less than nothing is none that was set. Seen to fail with it taken as it was: heartbeats came without a
// pause.
func TestNegativeLeaseIsTheDefault(t *testing.T) {
	g := retrysafe.New(newFaulty(), retrysafe.Options{Policy: retrysafe.Policy{Lease: -time.Second}})
	if got := g.Policy().Lease; got != 30*time.Second {
		t.Errorf("Lease = %v", got)
	}
}

// A claim that a crash of the store may lose needs work that may run again. Seen to fail with the check taken out of
// Validate.
func TestAsyncClaimNeedsWorkThatMayRunAgain(t *testing.T) {
	for name, c := range map[string]struct {
		onAbandoned retrysafe.AbandonedPolicy
		want        bool
	}{
		"default": {retrysafe.AbandonedPolicy{}, false}, "refuse": {retrysafe.Refuse(), false},
		"rerun": {retrysafe.Rerun(), true}, "rerun_tx": {retrysafe.RerunTx(), true},
	} {
		if err := (retrysafe.Policy{OnAbandoned: c.onAbandoned, AsyncClaim: true}).Validate(); (err == nil) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A duration without a unit is nanoseconds. Seen to fail with the loop taken out of Validate.
func TestDurationsWithoutAUnit(t *testing.T) {
	for name, p := range map[string]retrysafe.Policy{
		"Lease": {Lease: 30}, "Timeout": {Timeout: 5}, "Wait": {OnInFlight: retrysafe.Wait(5)},
		"HoldUnsaved":             {HoldUnsaved: 5},
		"Retention.Key":           {Retention: retrysafe.Retention{Key: 24}},
		"Retention.Replay":        {Retention: retrysafe.Retention{Replay: 86_400}},
		"FailureRetention.Replay": {FailureRetention: retrysafe.Retention{Replay: 60}},
	} {
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "unit") {
			t.Errorf("%s: %v", name, err)
		}
	}
	func() {
		defer func() {
			if got := fmt.Sprint(recover()); !strings.Contains(got, "StoreTimeout is 5ns") {
				t.Errorf("New with a StoreTimeout of 5: %s", got)
			}
		}()
		retrysafe.New(newFaulty(), retrysafe.Options{StoreTimeout: 5})
	}()
	p := retrysafe.Policy{Timeout: -1, OnInFlight: retrysafe.Wait(0), Retention: retrysafe.Retention{Replay: time.Millisecond}}
	if err := p.Validate(); err != nil {
		t.Error(err)
	}
}
