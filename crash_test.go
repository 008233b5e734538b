package retrysafe_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
)

func TestAbandonedKeyIsRefusedUntilResolved(t *testing.T) {
	bubble(t, retrysafe.Policy{}, func(k *kit) {
		k.crash()
		k.wantRefusal(pay(), retrysafe.ErrAbandoned)
		k.wantRefusal(pay(), retrysafe.ErrAbandoned)
	})
}

func TestRerunTakesOver(t *testing.T) {
	bubble(t, retrysafe.Policy{OnAbandoned: retrysafe.Rerun()}, func(k *kit) {
		zombie := k.crash()
		out, err := k.guard.Do(k.ctx, pay(), k.answer("rerun"))
		if err != nil || out.Attempt != 2 {
			k.Errorf("Do = %+v, %v", out, err)
		}
		err = k.store.Complete(k.ctx, zombie, retrysafe.Result{Body: []byte("zombie")}, retrysafe.Retention{})
		if !errors.Is(err, retrysafe.ErrLeaseLost) {
			k.Errorf("the zombie's completion: %v", err)
		}
		k.wantAnswer(pay(), k.answer("again"), "rerun", true)
		if k.saw(retrysafe.AttemptResumed) != 1 {
			k.Error("the observer was not told")
		}
	})
}

func TestReconcile(t *testing.T) {
	reconcile := func(r *retrysafe.Result, err error) retrysafe.Policy {
		return retrysafe.Policy{OnAbandoned: retrysafe.Reconcile(
			func(_ context.Context, a *retrysafe.Attempt, abandoned retrysafe.Record) (*retrysafe.Result, error) {
				if a.Number() != 2 || abandoned.Attempt != 1 || abandoned.State != retrysafe.Pending {
					return nil, errors.New("wrong attempt")
				}
				return r, err
			})}
	}
	bubble(t, reconcile(&retrysafe.Result{Body: []byte("it was charged")}, nil), func(k *kit) {
		k.crash()
		k.wantAnswer(pay(), k.answer("rerun"), "it was charged", false)
		k.wantAnswer(pay(), k.answer("rerun"), "it was charged", true)
		k.wantRuns(0)
	})
	bubble(t, reconcile(nil, nil), func(k *kit) {
		k.crash()
		k.wantAnswer(pay(), k.answer("nothing had happened"), "nothing had happened", false)
		k.wantRuns(1)
	})
	bubble(t, reconcile(nil, errors.New("bank does not answer")), func(k *kit) {
		k.crash()
		k.wantRefusal(pay(), retrysafe.ErrAbandoned)
		k.wantRuns(0)
	})
	bubble(t, reconcile(nil, errors.New("must not be asked")), func(k *kit) { // the key was free
		k.wantAnswer(pay(), k.answer("first"), "first", false)
	})
}

// Another request is faster to take an abandoned key over, and this one waits for it. The policy sees the record of the
// attempt that was taken over in the end; if the other one has released the key, it was taken over from none.
//
// Seen to fail with abandoned and TakeOver kept by decideBy: the policy saw attempt 1, and TookOver said true.
func TestATakeOverThatAnotherRequestWon(t *testing.T) {
	for name, isReleased := range map[string]bool{"abandoned": false, "released": true} {
		t.Run(name, func(t *testing.T) {
			var asked []int
			policy := retrysafe.Policy{OnInFlight: retrysafe.Wait(time.Minute), OnAbandoned: retrysafe.Reconcile(
				func(_ context.Context, _ *retrysafe.Attempt, abandoned retrysafe.Record) (*retrysafe.Result, error) {
					asked = append(asked, abandoned.Attempt, len(abandoned.Steps))
					return nil, nil
				})}
			bubble(t, policy, func(k *kit) {
				k.crash()
				k.store.on("claim", func() (bool, error) {
					if k.store.count("claim") != 2 {
						return true, nil
					}
					r := pay()
					c, err := k.store.Store.Claim(k.ctx, retrysafe.ClaimParams{
						Key: r.Key, Fingerprint: r.Fingerprint, Owner: retrysafe.NewOwner(), Lease: time.Second,
						Keep: retrysafe.Retention{}.WithDefaults(), TakeOver: true,
					})
					if err == nil {
						err = k.store.Store.Checkpoint(k.ctx, c.Lease, retrysafe.StepResult{Name: "charge", Data: []byte("1")})
					}
					if isReleased {
						time.AfterFunc(time.Second/2, func() { k.store.Store.Release(k.ctx, c.Lease) })
					}
					return true, err
				})
				out, err := k.guard.Do(k.ctx, pay(), func(_ context.Context, a *retrysafe.Attempt) (retrysafe.Result, error) {
					if a.Control().TookOver() == isReleased {
						k.Errorf("TookOver is %v", isReleased)
					}
					return retrysafe.Result{}, nil
				})
				want := []int{2, 1}
				if isReleased {
					want = nil
				}
				if err != nil || out.Attempt != 3 || !slices.Equal(asked, want) {
					k.Errorf("Do = attempt %d, %v; the policy saw %v, want %v", out.Attempt, err, asked, want)
				}
			})
		})
	}
}

func TestUnknownOutcomeAbandonsAtOnce(t *testing.T) {
	cut := errors.New("connection cut")
	bubble(t, retrysafe.Policy{}, func(k *kit) {
		_, err := k.guard.Do(k.ctx, pay(), k.failing(retrysafe.Unknown(cut)))
		if !errors.Is(err, retrysafe.ErrAbandoned) || !errors.Is(err, cut) {
			k.Errorf("Do = %v", err)
		}
		k.wantRefusal(pay(), retrysafe.ErrAbandoned)
		k.wantRuns(1)
	})
}

// Seen to fail with startHeartbeat taken out of run: the second request found the key abandoned.
func TestHeartbeatKeepsALongOperation(t *testing.T) {
	bubble(t, retrysafe.Policy{Lease: 30 * time.Second, Timeout: -1}, func(k *kit) {
		go k.guard.Do(k.ctx, pay(), k.taking(time.Hour, "slow"))
		for range 59 {
			time.Sleep(time.Minute)
			k.wantRefusal(pay(), retrysafe.ErrInFlight)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		k.wantAnswer(pay(), k.answer("again"), "slow", true)
	})
}

func TestShortWorkSendsNoHeartbeat(t *testing.T) {
	bubble(t, retrysafe.Policy{Lease: 30 * time.Second}, func(k *kit) {
		k.wantAnswer(pay(), k.taking(9*time.Second, "quick"), "quick", false)
		time.Sleep(time.Hour)
		if n := k.store.count("extend"); n != 0 {
			k.Errorf("%d heartbeats for work that ended within a third of its lease", n)
		}
	})
}

func TestHeartbeatSurvivesAStoreHiccup(t *testing.T) {
	bubble(t, retrysafe.Policy{Lease: 30 * time.Second}, func(k *kit) {
		k.store.down("extend")
		go k.guard.Do(k.ctx, pay(), k.taking(2*time.Minute, "slow"))
		time.Sleep(29 * time.Second)
		k.store.up()
		time.Sleep(time.Minute)
		k.wantRefusal(pay(), retrysafe.ErrInFlight)
		time.Sleep(time.Minute)
	})
}

// However the zombie's work ends, its caller is told that the lease was lost, so that it asks again and gets the heir's
// answer.
//
// Seen to fail with the fence and owner comparison taken out of memstore: the zombie's answer replaced the heir's; with
// abandon not looking at what giveUp found: the zombie's caller was told of an unknown outcome, for a key that had its
// answer; and with reportTaken telling each time.
func TestZombieIsToldAndChangesNothing(t *testing.T) {
	for name, end := range map[string]error{
		"result":    nil,
		"unknown":   retrysafe.Unknown(errors.New("cut off")),
		"retryable": retrysafe.Retryable(errors.New("not begun")),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, retrysafe.Policy{Lease: 30 * time.Second, OnAbandoned: retrysafe.Rerun()}, func(k *kit) {
				k.store.down("extend") // the zombie's process is cut off
				var cause error
				var refused error
				zombie := make(chan struct{})
				go func() {
					defer close(zombie)
					_, refused = k.guard.Do(k.ctx, pay(), func(ctx context.Context, _ *retrysafe.Attempt) (retrysafe.Result, error) {
						<-ctx.Done()
						cause = context.Cause(ctx)
						return retrysafe.Result{Body: []byte("zombie")}, end
					})
				}()
				time.Sleep(40 * time.Second)
				k.wantAnswer(pay(), k.answer("heir"), "heir", false)
				k.store.up()
				<-zombie
				if !errors.Is(cause, retrysafe.ErrLeaseLost) || !errors.Is(refused, retrysafe.ErrLeaseLost) {
					k.Errorf("the zombie's context ended with %v and Do with %v", cause, refused)
				}
				if taken, unknown := k.saw(retrysafe.LeaseTaken), k.saw(retrysafe.WorkUnknown); taken != 1 || unknown != 0 {
					k.Errorf("told of %d leases taken and %d unknown outcomes", taken, unknown)
				}
				k.wantAnswer(pay(), k.answer("again"), "heir", true)
			})
		})
	}
}

// When Shutdown returns, the result of work that was running is in the store.
// Seen to fail with a Shutdown that refuses new work, and does not wait.
func TestShutdownWaitsForRunningWork(t *testing.T) {
	bubble(t, retrysafe.Policy{}, func(k *kit) {
		go k.wantAnswer(pay(), k.taking(time.Minute, "slow"), "slow", false)
		synctest.Wait()
		if err := k.guard.Shutdown(k.ctx); err != nil {
			k.Errorf("shutdown: %v", err)
		}
		found, err := k.store.Inspect(k.ctx, pay().Key.Digest())
		if err != nil || len(found) != 1 || found[0].State != retrysafe.Succeeded {
			k.Errorf("after the shutdown the store has %v, %v", found, err)
		}
		k.wantRefusal(pay(), retrysafe.ErrShutdown)
	})
}

// Seen to fail with takeBack taken out of beat: the heartbeat revived the lease of work that had given up.
func TestHeartbeatDoesNotReviveAnAbandonedKey(t *testing.T) {
	bubble(t, retrysafe.Policy{Lease: 30 * time.Second}, func(k *kit) {
		var beats atomic.Int64
		k.store.on("extend", func() (bool, error) {
			if beats.Add(1) == 1 {
				time.Sleep(2 * time.Second) // the first heartbeat, sent after ten, takes effect after twelve
			}
			return true, nil
		})
		k.guard.Do(k.ctx, pay(), func(context.Context, *retrysafe.Attempt) (retrysafe.Result, error) {
			time.Sleep(11 * time.Second)
			return retrysafe.Result{}, retrysafe.Unknown(errors.New("cut off"))
		})
		time.Sleep(3 * time.Second)
		k.wantRefusal(pay(), retrysafe.ErrAbandoned)
	})
}

// An inner Guard's word is about its own key: the outer work has had an effect, and only its own mark may free the
// outer key. Seen to fail with release and abandon returning the error as it was: the outer key was free, and ran
// again; and what the inner Guard had answered counted as the outer one's answer.
func TestAMarkBelongsToItsAttempt(t *testing.T) {
	busy := errors.New("busy")
	inner := func(ctx context.Context, k *kit, err error) error {
		_, err = k.guard.Do(ctx, request("inner", ""), k.failing(err))
		return err
	}
	for name, mark := range map[string]func(error) error{"retryable": retrysafe.Retryable, "unknown": retrysafe.Unknown} {
		t.Run(name, func(t *testing.T) {
			bubble(t, retrysafe.Policy{}, func(k *kit) {
				for range 2 {
					_, err := k.guard.Do(k.ctx, pay(), func(ctx context.Context, _ *retrysafe.Attempt) (retrysafe.Result, error) {
						err := inner(ctx, k, mark(busy))
						if !errors.Is(err, busy) {
							k.Errorf("the outer work got %v", err)
						}
						return retrysafe.Result{}, fmt.Errorf("after the charge: %w", errors.Join(err))
					})
					var failure *retrysafe.Failure
					if !errors.As(err, &failure) {
						k.Errorf("the outer key ended with %v", err)
					}
				}
				k.wantRuns(1)
			})
		})
	}
	bubble(t, retrysafe.Policy{}, func(k *kit) { // the outer work speaks for itself
		var refusal *retrysafe.Refusal
		first := inner(k.ctx, k, retrysafe.Unknown(busy))
		_, err := k.guard.Do(k.ctx, pay(), func(ctx context.Context, _ *retrysafe.Attempt) (retrysafe.Result, error) {
			return retrysafe.Result{}, retrysafe.Retryable(errors.Join(first, inner(ctx, k, nil)))
		})
		if !errors.Is(err, busy) || errors.Is(err, retrysafe.ErrAbandoned) || errors.As(err, &refusal) {
			k.Errorf("Do = %v", err)
		}
		k.wantAnswer(pay(), k.answer("again"), "again", false)
	})
}
