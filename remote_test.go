package retrysafe_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
)

// service is another process that does the work: it completes the attempt through the store, under the attempt's lease.
type service struct{ *kit }

// paid is what the service saves.
var paid = retrysafe.Result{Code: 201, Meta: []byte("json"), Body: []byte("paid")}

func (s service) complete(a *retrysafe.Attempt, r retrysafe.Result) {
	s.Helper()
	keep := retrysafe.Retention{}.WithDefaults()
	if err := s.store.Store.Complete(s.ctx, a.Control().Lease(), r, keep); err != nil {
		s.Errorf("the service could not complete: %v", err)
	}
}

// handedOver is work that hands the attempt over to the service.
func (k *kit) handedOver(
	serve func(s service, a *retrysafe.Attempt), r retrysafe.Result, err error,
) retrysafe.Work {
	return func(_ context.Context, a *retrysafe.Attempt) (retrysafe.Result, error) {
		k.ran.Add(1)
		a.Control().CompletedElsewhere()
		serve(service{k}, a)
		return r, err
	}
}

func completes(s service, a *retrysafe.Attempt) { s.complete(a, paid) }
func doesNothing(service, *retrysafe.Attempt)   {}

// lost is how work ends whose other process did not answer.
var errLost = errors.New("the connection broke")

// wantPaid checks that Do answers with what the service has saved, not with what the work returned.
func (k *kit) wantPaid(work retrysafe.Work) {
	k.Helper()
	out, err := k.guard.Do(k.ctx, pay(), work)
	if err != nil || out.Result.Code != 201 || string(out.Result.Body) != "paid" || !out.CompletedElsewhere || !out.Stored {
		k.Errorf("Do = %+v, %v; want what the service has saved", out, err)
	}
	k.wantAnswer(pay(), k.answer("again"), "paid", true)
	k.wantRuns(1)
}

// The service completes, and its answer to the work is lost in every way.
//
// Seen to fail with localEnd instead of end for complete in conclude (the first three), and with lost instead of
// leaseLost in release (the fourth: 409) and in abandon (the others).
func TestTheRecordDecidesWhateverTheWorkReturns(t *testing.T) {
	for name, end := range map[string]struct {
		result retrysafe.Result
		err    error
	}{
		"another answer":  {result: retrysafe.Result{Code: 200, Body: []byte("something else")}},
		"a failure":       {result: retrysafe.Result{Failed: true, Code: 500}},
		"a final error":   {err: errLost},
		"nothing happens": {err: retrysafe.Retryable(errLost)},
		"unknown":         {err: retrysafe.Unknown(errLost)},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, retrysafe.Policy{}, func(k *kit) {
				k.wantPaid(k.handedOver(completes, end.result, end.err))
				if k.saw(retrysafe.WorkSucceeded) != 1 || k.saw(retrysafe.LeaseTaken)+k.saw(retrysafe.CompletionMissing) != 0 {
					k.Errorf("events %v", k.events)
				}
			})
		})
	}
	t.Run("a panic", func(t *testing.T) {
		bubble(t, retrysafe.Policy{}, func(k *kit) {
			func() {
				defer func() { _ = recover() }()
				work := k.handedOver(func(s service, a *retrysafe.Attempt) { s.complete(a, paid); panic("x") }, paid, nil)
				_, _ = k.guard.Do(k.ctx, pay(), work)
			}()
			k.wantAnswer(pay(), k.answer("again"), "paid", true)
			if k.saw(retrysafe.WorkSucceeded) != 1 {
				k.Errorf("events %v", k.events)
			}
		})
	})
	t.Run("a failure that the service has saved", func(t *testing.T) {
		bubble(t, retrysafe.Policy{}, func(k *kit) {
			declined := retrysafe.Result{Failed: true, Code: 402, Body: []byte("declined")}
			work := k.handedOver(func(s service, a *retrysafe.Attempt) { s.complete(a, declined) }, paid, nil)
			out, err := k.guard.Do(k.ctx, pay(), work)
			if err != nil || !out.Result.Failed || out.Result.Code != 402 || k.saw(retrysafe.WorkFailed) != 1 {
				k.Errorf("Do = %+v, %v", out, err)
			}
		})
	})
}

// What the service has not completed ends as the work says; and what it completes later is refused.
//
// Seen to fail with Release taken out of release.
func TestWithoutACompletionTheWorkDecides(t *testing.T) {
	for name, c := range map[string]struct {
		err     error
		reason  error
		runs    int64 // of both requests
		expects retrysafe.EventKind
	}{
		"released": {retrysafe.Retryable(errLost), errLost, 2, retrysafe.WorkReleased},
		"unknown":  {retrysafe.Unknown(errLost), retrysafe.ErrAbandoned, 2, retrysafe.WorkUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, retrysafe.Policy{OnAbandoned: retrysafe.Rerun()}, func(k *kit) {
				var late retrysafe.Lease
				_, err := k.guard.Do(k.ctx, pay(), k.handedOver(func(_ service, a *retrysafe.Attempt) {
					late = a.Control().Lease()
				}, retrysafe.Result{}, c.err))
				if !errors.Is(err, c.reason) || k.saw(c.expects) != 1 {
					k.Errorf("Do = %v, events %v", err, k.events)
				}
				k.wantAnswer(pay(), k.answer("second"), "second", false)
				err = k.store.Store.Complete(k.ctx, late, paid, retrysafe.Retention{})
				if !errors.Is(err, retrysafe.ErrLeaseLost) {
					k.Errorf("the service completed late: %v", err)
				}
				k.wantRuns(c.runs)
			})
		})
	}
}

// A service that forgets to complete is reported, and its work does not run twice for it. A failure needs no completion.
//
// Seen to fail with CompletionMissing taken out of decide, and with Complete taken out of it (the retry runs again).
func TestSuccessWithoutCompletionIsReportedAndStored(t *testing.T) {
	for name, c := range map[string]struct {
		result  retrysafe.Result
		missing int
	}{
		"success": {retrysafe.Result{Code: 201, Body: []byte("done")}, 1},
		"failure": {retrysafe.Result{Failed: true, Code: 400, Body: []byte("done")}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, retrysafe.Policy{}, func(k *kit) {
				out, err := k.guard.Do(k.ctx, pay(), k.handedOver(doesNothing, c.result, nil))
				if err != nil || string(out.Result.Body) != "done" || out.CompletedElsewhere || !out.Stored {
					k.Errorf("Do = %+v, %v", out, err)
				}
				k.wantAnswer(pay(), k.answer("again"), "done", true)
				k.wantRuns(1)
				if got := k.saw(retrysafe.CompletionMissing); got != c.missing {
					k.Errorf("%d completions were reported as missing, want %d", got, c.missing)
				}
			})
		})
	}
}

// The service completes after the Guard has read the record, and before it saves the work's answer. The caller gets what
// was saved first, as every retry does.
//
// Seen to fail with decide returning after Complete without reading the record again.
func TestACompletionBetweenTwoCallsToTheStoreCounts(t *testing.T) {
	bubble(t, retrysafe.Policy{}, func(k *kit) {
		k.wantPaid(k.handedOver(func(s service, a *retrysafe.Attempt) {
			k.store.on("complete", func() (bool, error) { s.complete(a, paid); return true, nil })
		}, retrysafe.Result{Code: 200, Body: []byte("mine")}, nil))
		if k.saw(retrysafe.CompletionMissing) != 0 {
			k.Error("the completion was reported as missing")
		}
	})
}

// Service and Guard end the attempt at the same time, in every order that the scheduler finds. Caller and retries agree.
//
// Seen to fail, within some rounds, with decide returning after Complete without reading the record again.
func TestServiceAndGuardEndTheAttemptAtOnce(t *testing.T) {
	for _, end := range []error{nil, retrysafe.Retryable(errLost), retrysafe.Unknown(errLost)} {
		for range 200 {
			k := newKit(t, retrysafe.Policy{OnAbandoned: retrysafe.Rerun()})
			var both sync.WaitGroup
			var completed error
			out, err := k.guard.Do(k.ctx, pay(), k.handedOver(func(s service, a *retrysafe.Attempt) {
				lease := a.Control().Lease()
				both.Go(func() { completed = k.store.Store.Complete(k.ctx, lease, paid, retrysafe.Retention{}.WithDefaults()) })
			}, retrysafe.Result{Code: 200, Body: []byte("mine")}, end))
			both.Wait()
			again, errAgain := k.guard.Do(k.ctx, pay(), k.answer("second"))
			saved := string(again.Result.Body)
			switch {
			case errAgain != nil:
				t.Fatalf("a retry got %v", errAgain)
			case err == nil && string(out.Result.Body) != saved:
				t.Fatalf("the caller got %q, a retry %q", out.Result.Body, saved)
			case errors.Is(end, errLost) && completed == nil && saved != "paid":
				t.Fatalf("the service completed, and a retry got %q", saved)
			case errors.Is(completed, retrysafe.ErrLeaseLost) && saved == "paid":
				t.Fatal("the service was refused, and a retry got its answer")
			}
		}
	}
}

// locked is a store in which a transaction of the service holds the record: calls for it wait until the transaction
// has ended, or their time is over.
type locked struct {
	*faulty
	ended chan struct{} // nil: no transaction
}

func (s *locked) wait(ctx context.Context) error {
	if s.ended == nil {
		return nil
	}
	select {
	case <-s.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *locked) Claim(ctx context.Context, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
	if err := s.wait(ctx); err != nil {
		return retrysafe.Claim{}, err
	}
	return s.faulty.Claim(ctx, p)
}

func (s *locked) Extend(ctx context.Context, l retrysafe.Lease, d time.Duration) error {
	if err := s.wait(ctx); err != nil {
		return err
	}
	return s.faulty.Extend(ctx, l, d)
}

func (s *locked) Release(ctx context.Context, l retrysafe.Lease) error {
	if err := s.wait(ctx); err != nil {
		return err
	}
	return s.faulty.Release(ctx, l)
}

// The service's transaction is open after it has called complete, when the work ends. The caller is told that the
// request is in flight, after no more than the store's timeout; the transaction's end decides.
//
// Seen to fail with localEnd instead of end for complete in conclude ("success"), for releaseFailed in release and for
// abandonFailed in abandon (a transaction that was rolled back or committed later counted), and in undecided with later
// taken out (the key stays in flight) and with ErrLeaseLost returned (SaveAbandoned, although the service has
// completed).
func TestAnOpenTransactionOfTheServiceIsInFlight(t *testing.T) {
	for name, end := range map[string]error{
		"success": nil, "nothing happened": retrysafe.Retryable(errLost), "unknown": retrysafe.Unknown(errLost),
	} {
		for _, commits := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, commits %v", name, commits), func(t *testing.T) {
				bubble(t, retrysafe.Policy{Lease: time.Hour, OnAbandoned: retrysafe.Rerun()}, func(k *kit) {
					store := &locked{faulty: k.store}
					g := retrysafe.New(store, retrysafe.Options{
						Policy: k.guard.Policy(), Observer: retrysafe.ObserverFunc(k.observe), SweepEvery: -1,
					})
					k.guard = g
					var lease retrysafe.Lease
					began := time.Now()
					_, err := g.Do(k.ctx, pay(), k.handedOver(func(_ service, a *retrysafe.Attempt) {
						lease = a.Control().Lease()
						store.ended = make(chan struct{})
					}, retrysafe.Result{Code: 201, Body: []byte("mine")}, end))
					if advice := g.Explain(err); advice.Situation == retrysafe.SituationReleased || !advice.Retryable {
						k.Errorf("Do = %v", err)
					}
					if took := time.Since(began); took > 5*time.Second {
						k.Errorf("Do took %v", took)
					}
					time.Sleep(20 * time.Second)
					if commits {
						if err := k.store.Store.Complete(k.ctx, lease, paid, retrysafe.Retention{}.WithDefaults()); err != nil {
							k.Error(err)
						}
					}
					close(store.ended)
					time.Sleep(20 * time.Second)
					switch {
					case commits:
						k.wantAnswer(pay(), k.answer("second"), "paid", true)
					case end == nil: // stored although it was not completed: see CompletionMissing
						k.wantAnswer(pay(), k.answer("second"), "mine", true)
						if k.saw(retrysafe.CompletionMissing) != 1 {
							k.Errorf("events %v", k.events)
						}
					default:
						k.wantAnswer(pay(), k.answer("second"), "second", false)
					}
					if k.saw(retrysafe.SaveAbandoned)+k.saw(retrysafe.LeaseTaken) != 0 {
						k.Errorf("events %v", k.events)
					}
				})
			})
		}
	}
}

// The service completes, and its answer takes longer than the lease. The heartbeat finds that the attempt has ended, and
// lets it be.
//
// Seen to fail with lose instead of heartbeatLost in beat: the work's context ended, and LeaseTaken was reported.
func TestAHeartbeatDoesNotTakeACompletedLeaseForALostOne(t *testing.T) {
	bubble(t, retrysafe.Policy{Lease: 3 * time.Second}, func(k *kit) {
		out, err := k.guard.Do(k.ctx, pay(), func(ctx context.Context, a *retrysafe.Attempt) (retrysafe.Result, error) {
			a.Control().CompletedElsewhere()
			time.Sleep(5 * time.Second)
			service{k}.complete(a, paid)
			time.Sleep(10 * time.Second)
			return retrysafe.Result{}, retrysafe.Retryable(ctx.Err())
		})
		if err != nil || string(out.Result.Body) != "paid" || k.saw(retrysafe.LeaseTaken) != 0 {
			k.Errorf("Do = %+v, %v; events %v", out, err, k.events)
		}
		if n := k.store.count("extend"); n > 6 {
			k.Errorf("%d heartbeats, although the attempt was completed", n)
		}
	})
}

// The attempt has taken the key over, and so asks with TakeOver: the abandoned key of an attempt that came later is left
// abandoned.
//
// Seen to fail with lose taken out of loseUnlessCompleted, and with restore taken out of ask (the key was in flight).
func TestAHeartbeatFindsThatAnotherAttemptHasTheKey(t *testing.T) {
	bubble(t, retrysafe.Policy{Lease: 3 * time.Second, OnAbandoned: retrysafe.Rerun()}, func(k *kit) {
		k.crash()
		_, err := k.guard.Do(k.ctx, pay(), func(ctx context.Context, a *retrysafe.Attempt) (retrysafe.Result, error) {
			a.Control().CompletedElsewhere()
			if err := k.store.Store.Release(k.ctx, a.Control().Lease()); err != nil {
				k.Error(err)
			}
			k.crash()
			<-ctx.Done()
			if cause := context.Cause(ctx); !errors.Is(cause, retrysafe.ErrLeaseLost) {
				k.Errorf("the work's context ended with %v", cause)
			}
			return retrysafe.Result{}, retrysafe.Retryable(errLost)
		})
		if !errors.Is(err, retrysafe.ErrLeaseLost) || k.saw(retrysafe.LeaseTaken) != 1 {
			k.Errorf("Do = %v, events %v", err, k.events)
		}
		k.guard = k.guard.With(retrysafe.Policy{OnAbandoned: retrysafe.Refuse()})
		k.wantRefusal(pay(), retrysafe.ErrAbandoned)
	})
}

// The service releases the key through SQL, and answers. The claim that asks for the record finds the key free, and must
// not keep it.
//
// Seen to fail with restore taken out of ask: the retry was in flight, without an attempt.
func TestAKeyThatTheServiceHasReleasedIsFree(t *testing.T) {
	for name, c := range map[string]struct {
		result    retrysafe.Result
		situation retrysafe.Situation
		missing   int
	}{
		"failure": {retrysafe.Result{Failed: true, Code: 400}, retrysafe.SituationReleased, 0},
		"success": {retrysafe.Result{Code: 201}, retrysafe.SituationInFlight, 1},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, retrysafe.Policy{}, func(k *kit) {
				_, err := k.guard.Do(k.ctx, pay(), k.handedOver(func(_ service, a *retrysafe.Attempt) {
					if err := k.store.Store.Release(k.ctx, a.Control().Lease()); err != nil {
						k.Error(err)
					}
				}, c.result, nil))
				if got := k.guard.Explain(err).Situation; got != c.situation || k.saw(retrysafe.CompletionMissing) != c.missing {
					k.Errorf("Do = %v, a situation %v; events %v", err, got, k.events)
				}
				k.wantAnswer(pay(), k.answer("second"), "second", false)
			})
		})
	}
}

// recording is a store that keeps the parameters of claims.
type recording struct {
	*faulty
	claims []retrysafe.ClaimParams
}

func (s *recording) Claim(ctx context.Context, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
	s.claims = append(s.claims, p)
	return s.faulty.Claim(ctx, p)
}

// The claim that asks for the record is the attempt's own: same owner, fingerprint, retention and right to take over.
// With other parameters it would change the record. It says that it is not the first one. Seen to fail with TakeOver, with
// Fingerprint, with Async and with Again taken out of claimParams, and with Async taken out of claimRequest.
func TestAskingRepeatsTheClaim(t *testing.T) {
	policy := retrysafe.Policy{
		OnAbandoned: retrysafe.Rerun(), Retention: retrysafe.Retention{Replay: time.Hour, Key: 2 * time.Hour},
		AsyncClaim: true,
	}
	bubble(t, policy, func(k *kit) {
		store := &recording{faulty: k.store}
		g := retrysafe.New(store, retrysafe.Options{Policy: policy, SweepEvery: -1})
		k.crash()
		if _, err := g.Do(k.ctx, pay(), k.handedOver(completes, paid, nil)); err != nil {
			k.Error(err)
		}
		if len(store.claims) != 3 {
			k.Fatalf("claims: %+v", store.claims)
		}
		first := store.claims[1]
		first.Again = true
		if store.claims[1].Again || first != store.claims[2] || !first.TakeOver || !first.Async {
			k.Errorf("claims: %+v", store.claims)
		}
	})
}

// Work that takes no longer than its timeout has no heartbeat. Seen to fail with Lease left as it is.
func TestPolicyForWorkCompletedElsewhere(t *testing.T) {
	p := retrysafe.Policy{Timeout: 20 * time.Second}.CompletedElsewhere()
	if p.Lease != time.Minute || !p.OnAbandoned.Equal(retrysafe.Rerun()) {
		t.Errorf("lease %v, abandoned %v", p.Lease, p.OnAbandoned)
	}
	if p = (retrysafe.Policy{}).CompletedElsewhere(); p.Lease != 90*time.Second || p.Timeout != 30*time.Second {
		t.Errorf("lease %v, timeout %v without a timeout of its own", p.Lease, p.Timeout)
	}
	p = retrysafe.Policy{Lease: time.Second, OnAbandoned: retrysafe.Refuse()}.CompletedElsewhere()
	if p.Lease != time.Second || !p.OnAbandoned.Equal(retrysafe.Refuse()) {
		t.Errorf("what was set is now lease %v, abandoned %v", p.Lease, p.OnAbandoned)
	}
	bubble(t, retrysafe.Policy{Timeout: 20 * time.Second}.CompletedElsewhere(), func(k *kit) {
		k.wantAnswer(pay(), k.taking(19*time.Second, "paid"), "paid", false)
		if n := k.store.count("extend"); n != 0 {
			k.Errorf("%d heartbeats", n)
		}
	})
}

// lateAsk is a store that loses a claim, and receives it three seconds later.
type lateAsk struct {
	*faulty
	lose int // which claim, from 1
	n    int
}

func (s *lateAsk) Claim(ctx context.Context, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
	if s.n++; s.n == s.lose {
		time.AfterFunc(3*time.Second, func() { s.Store.Claim(context.Background(), p) })
		return retrysafe.Claim{}, errDown
	}
	return s.faulty.Claim(ctx, p)
}

// A claim of a key that the other process releases, the first one or one that asked for the record, arrives late, when
// the key is free: it is undone. Seen to fail with doubt taken out of ask, and with undoDoubted out of complete and of
// undecided: the key was in flight without an attempt.
func TestALateAskIsUndone(t *testing.T) {
	for lose, undecided := range map[int]bool{1: false, 2: true} {
		bubble(t, retrysafe.Policy{Lease: 30 * time.Second}, func(k *kit) {
			s := &lateAsk{faulty: k.store, lose: lose}
			g := retrysafe.New(s, retrysafe.Options{Policy: k.guard.Policy(), SweepEvery: -1})
			_, err := g.Do(k.ctx, pay(), k.handedOver(func(_ service, a *retrysafe.Attempt) {
				if err := k.store.Store.Release(k.ctx, a.Control().Lease()); err != nil {
					k.Error(err)
				}
			}, retrysafe.Result{Failed: true, Code: 400}, nil))
			if err == nil || errors.Is(err, retrysafe.ErrInFlight) != undecided {
				k.Errorf("Do = %v", err)
			}
			time.Sleep(3500 * time.Millisecond)
			k.wantRefusal(pay(), retrysafe.ErrInFlight) // it has arrived
			time.Sleep(5 * time.Second)
			k.wantAnswer(pay(), k.answer("second"), "second", false)
			if err := g.Shutdown(k.ctx); err != nil {
				k.Error(err)
			}
			time.Sleep(time.Minute)
		})
	}
}

// unreadable is a store that cannot read the record of an attempt that has ended, as one with encryption if a service
// has saved its answer in plaintext.
type unreadable struct {
	*faulty
	refused atomic.Int32
}

func (s *unreadable) Claim(ctx context.Context, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
	c, err := s.faulty.Claim(ctx, p)
	if c.Verdict == retrysafe.Done {
		s.refused.Add(1)
		return retrysafe.Claim{}, retrysafe.ErrUnreadable
	}
	return c, err
}

// The record that decides cannot be read, and never will be. The attempt ends all the same: it does not ask for as long
// as the process lives, and Shutdown returns. Seen to fail with ErrUnreadable taken out of undecided.
func TestARecordThatCannotBeReadEndsTheAttempt(t *testing.T) {
	bubble(t, retrysafe.Policy{Lease: 30 * time.Second}, func(k *kit) {
		store := &unreadable{faulty: k.store}
		g := retrysafe.New(store, retrysafe.Options{Policy: k.guard.Policy(), SweepEvery: -1})
		if _, err := g.Do(k.ctx, pay(), k.handedOver(completes, paid, nil)); !errors.Is(err, retrysafe.ErrInFlight) {
			k.Errorf("Do = %v", err)
		}
		time.Sleep(time.Hour)
		if n := store.refused.Load(); n != 2 {
			k.Errorf("the record was asked for %d times, want 2", n)
		}
		if _, err := g.Do(k.ctx, pay(), k.answer("again")); !errors.Is(err, retrysafe.ErrUnreadable) {
			k.Errorf("Do = %v", err)
		}
		ctx, stop := context.WithTimeout(k.ctx, time.Minute)
		defer stop()
		if err := g.Shutdown(ctx); err != nil {
			k.Error(err)
		}
		k.wantRuns(1)
	})
}

// An attempt without a lease has no record that could decide. Seen to fail with Protected taken out of
// CompletedElsewhere.
func TestAnUnprotectedAttemptCannotBeCompletedElsewhere(t *testing.T) {
	bubble(t, retrysafe.Policy{OnStoreError: retrysafe.FailOpen}, func(k *kit) {
		k.store.down("claim")
		out, err := k.guard.Do(k.ctx, pay(), k.handedOver(doesNothing, paid, nil))
		if err != nil || !out.Unprotected || string(out.Result.Body) != "paid" {
			k.Errorf("Do = %+v, %v", out, err)
		}
		k.store.up()
		time.Sleep(time.Minute)
	})
}

// Steps that the other process has saved are its own business. Seen to fail with reportUnused called for it.
func TestStepsOfAnotherProcessAreNotReportedAsUnused(t *testing.T) {
	bubble(t, retrysafe.Policy{OnAbandoned: retrysafe.Rerun()}, func(k *kit) {
		k.crash(retrysafe.StepResult{Name: "charge", Data: []byte("1")})
		k.wantPaid(k.handedOver(completes, paid, nil))
		if k.saw(retrysafe.StepUnused) > 0 {
			k.Error("a step was reported as unused")
		}
	})
}
