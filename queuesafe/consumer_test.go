package queuesafe_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/fingerprint"
	"github.com/retrysafe/retrysafe/queuesafe"
)

var errBank = errors.New("the bank says no")

// Seen to fail with Processed's action changed to Later, and with SituationReplayed translated to Processed.
func TestRedeliveryOfFinishedWorkCostsOneRead(t *testing.T) {
	bubble(t, retrysafe.Policy{}, queuesafe.Options{}, func(k *kit) {
		k.want(k.handle(order(1), nil), queuesafe.Processed, queuesafe.Ack)
		claims, writes := k.store.claims.Load(), k.store.writes.Load()
		k.want(k.handle(order(2), nil), queuesafe.Duplicate, queuesafe.Ack)
		k.wantRuns(1)
		if c, w := k.store.claims.Load()-claims, k.store.writes.Load()-writes; c != 1 || w != 0 {
			k.Errorf("a redelivery cost %d claims and %d writes", c, w)
		}
	})
}

func TestFailedForGoodIsDeadNowAndLater(t *testing.T) {
	bubble(t, retrysafe.Policy{}, queuesafe.Options{}, func(k *kit) {
		d := k.handle(order(1), errBank)
		k.want(d, queuesafe.Failed, queuesafe.Dead)
		k.want(k.handle(order(2), nil), queuesafe.Failed, queuesafe.Dead)
		k.wantRuns(1)
		if d.Err.Error() != errBank.Error() {
			k.Errorf("the error is %v", d.Err)
		}
	})
}

// A message marked as seen before its handler has run would be acknowledged here, and lost. Seen to fail with
// Retryable's action changed to Ack.
func TestRetryableComesAgainAndRuns(t *testing.T) {
	bubble(t, retrysafe.Policy{}, queuesafe.Options{MaxDeliveries: 3}, func(k *kit) {
		k.want(k.handle(order(1), retrysafe.Retryable(errBank)), queuesafe.Retryable, queuesafe.Later)
		k.want(k.handle(order(2), nil), queuesafe.Processed, queuesafe.Ack)
		k.wantRuns(2)
		other := order(2)
		other.ID = "m-2"
		k.want(k.handle(other, retrysafe.Retryable(errBank)), queuesafe.Retryable, queuesafe.Later)
		other.Delivery = 3
		k.want(k.handle(other, retrysafe.Retryable(errBank)), queuesafe.Retryable, queuesafe.Dead)
		// It is a dead letter that can be sent back: nothing happened, and the key is free.
		other.Delivery = 1
		k.want(k.handle(other, nil), queuesafe.Processed, queuesafe.Ack)
	})
}

// Seen to fail with InFlight's action changed to Ack: the message was gone when the attempt failed.
func TestInFlightElsewhereIsLeft(t *testing.T) {
	bubble(t, retrysafe.Policy{Lease: 30 * time.Second}, queuesafe.Options{MinDelay: time.Second, MaxDeliveries: 2},
		func(k *kit) {
			first := make(chan queuesafe.Disposition)
			go func() {
				first <- k.consumer.Handle(k.ctx, order(1), func(context.Context, queuesafe.Message) error {
					time.Sleep(time.Minute)
					return retrysafe.Retryable(errBank)
				})
			}()
			synctest.Wait()
			d := k.handle(order(7), nil) // delivered often, but not because of the message
			k.want(d, queuesafe.InFlight, queuesafe.Later)
			if d.Delay <= 0 || d.Delay > 30*time.Second {
				k.Errorf("delay %v, though the lease ends within 30 s", d.Delay)
			}
			k.want(<-first, queuesafe.Retryable, queuesafe.Later)
			k.want(k.handle(order(8), nil), queuesafe.Processed, queuesafe.Ack)
			k.wantRuns(1)
		})
}

func TestAnotherMessageUnderTheKeyIsAMismatch(t *testing.T) {
	bubble(t, retrysafe.Policy{}, queuesafe.Options{}, func(k *kit) {
		k.want(k.handle(order(1), nil), queuesafe.Processed, queuesafe.Ack)
		other := order(1)
		other.Body = []byte(`{"order":"o-18"}`)
		k.want(k.handle(other, nil), queuesafe.Mismatch, queuesafe.Dead)
		k.want(k.handle(order(2), nil), queuesafe.Duplicate, queuesafe.Ack)
		k.wantRuns(1)
	})
}

// A database connection that is lost for two hours, as the handler of docs/queues.md reports it: without a mark. Seen to
// fail with such errors final under every policy, and with MaxDeliveries of 20: the message was dead.
func TestDownstreamThatIsAwayMakesNoDeadLetter(t *testing.T) {
	lost := errors.New("connection reset by peer")
	bubble(t, retrysafe.Policy{OnAbandoned: retrysafe.RerunTx()}, queuesafe.Options{}, func(k *kit) {
		n := 1
		for began := time.Now(); time.Since(began) < 2*time.Hour; n++ {
			d := k.handle(order(n), lost)
			k.want(d, queuesafe.Retryable, queuesafe.Later)
			time.Sleep(d.Delay)
		}
		k.want(k.handle(order(n), nil), queuesafe.Processed, queuesafe.Ack)
	})
	for _, err := range []error{lost, context.DeadlineExceeded} {
		bubble(t, retrysafe.Policy{OnAbandoned: retrysafe.Rerun()}, queuesafe.Options{MaxAttempts: 3}, func(k *kit) {
			k.want(k.handle(order(1), err), queuesafe.Unknown, queuesafe.Later)
			k.want(k.handle(order(2), nil), queuesafe.Processed, queuesafe.Ack)
		})
		bubble(t, retrysafe.Policy{OnAbandoned: retrysafe.Rerun()}, queuesafe.Options{MaxAttempts: 3}, func(k *kit) {
			for n := range 3 {
				k.want(k.handle(order(n+1), err), queuesafe.Unknown, queuesafe.Later)
			}
			k.want(k.handle(order(4), nil), queuesafe.Poison, queuesafe.Dead)
		})
	}
	bubble(t, retrysafe.Policy{OnAbandoned: retrysafe.RerunTx()}, queuesafe.Options{}, func(k *kit) {
		k.want(k.handle(order(1), retrysafe.Terminal(lost)), queuesafe.Failed, queuesafe.Dead)
	})
}

// A message whose first step is done does not end as poison because the downstream service of the second is away for
// longer than ten deliveries take: half of its work would never be done. An unknown outcome after that ends it.
// Seen to fail without TookOver: the message was poison after five minutes.
func TestDownstreamThatIsAwayAfterAStep(t *testing.T) {
	steps := func(err error) queuesafe.Handler {
		return func(ctx context.Context, _ queuesafe.Message) error {
			_, failed := retrysafe.Step(ctx, "reserve", func(context.Context, string) (int, error) { return 1, nil })
			return errors.Join(failed, err)
		}
	}
	for _, crashes := range []bool{false, true} {
		bubble(t, retrysafe.Policy{OnAbandoned: retrysafe.Rerun()}, queuesafe.Options{}, func(k *kit) {
			n := 1
			for ; n <= 30; n++ {
				d := k.consumer.Handle(k.ctx, order(n), steps(retrysafe.Retryable(errBank)))
				k.want(d, queuesafe.Retryable, queuesafe.Later)
				time.Sleep(d.Delay)
			}
			if crashes {
				k.want(k.handle(order(n), retrysafe.Unknown(errBank)), queuesafe.Unknown, queuesafe.Later)
				k.want(k.consumer.Handle(k.ctx, order(n+1), steps(nil)), queuesafe.Poison, queuesafe.Dead)
			} else {
				k.want(k.consumer.Handle(k.ctx, order(n), steps(nil)), queuesafe.Processed, queuesafe.Ack)
			}
		})
	}
}

// Seen to fail with the comparison with MaxAttempts taken out of work: the handler ran with each delivery.
func TestPoisonEnds(t *testing.T) {
	bubble(t, retrysafe.Policy{OnAbandoned: retrysafe.Rerun()}, queuesafe.Options{MaxAttempts: 3}, func(k *kit) {
		for range 3 {
			k.crash(order(1))
		}
		k.want(k.handle(order(4), nil), queuesafe.Poison, queuesafe.Dead)
		k.want(k.handle(order(5), nil), queuesafe.Poison, queuesafe.Dead)
		k.wantRuns(0)
	})
}

func TestCrashIsRunAgainUnderRerun(t *testing.T) {
	bubble(t, retrysafe.Policy{OnAbandoned: retrysafe.Rerun()}, queuesafe.Options{}, func(k *kit) {
		k.crash(order(1))
		k.want(k.handle(order(2), nil), queuesafe.Processed, queuesafe.Ack)
		k.wantRuns(1)
	})
}

func TestUnknownOutcomeWaitsForSomebodyThenIsDead(t *testing.T) {
	bubble(t, retrysafe.Policy{}, queuesafe.Options{MaxDeliveries: 3}, func(k *kit) {
		k.crash(order(1))
		k.want(k.handle(order(2), nil), queuesafe.Unknown, queuesafe.Later)
		k.want(k.handle(order(3), nil), queuesafe.Unknown, queuesafe.Dead)
		k.wantRuns(0)
	})
	bubble(t, retrysafe.Policy{}, queuesafe.Options{}, func(k *kit) {
		inner := &retrysafe.Failure{Message: "of another guard"} // must not be taken for this one's
		k.want(k.handle(order(1), retrysafe.Unknown(inner)), queuesafe.Unknown, queuesafe.Later)
	})
}

// Seen to fail with SituationUnsaved translated to Processed: the message was acknowledged though its key had not
// ended.
func TestUnsavedEndIsNotAcknowledged(t *testing.T) {
	bubble(t, retrysafe.Policy{}, queuesafe.Options{}, func(k *kit) {
		k.store.completeDown.Store(true)
		for i := range 2 { // the second delivery finds the end in memory
			if d := k.handle(order(i+1), nil); d.Situation != queuesafe.Unsaved || d.Action != queuesafe.Later {
				k.Errorf("delivery %d is %v: %v", i+1, d.Situation, d.Action)
			}
		}
		k.store.completeDown.Store(false)
		time.Sleep(time.Minute)
		k.want(k.handle(order(3), nil), queuesafe.Duplicate, queuesafe.Ack)
		k.wantRuns(1)
	})
}

func TestStoreThatIsDownRunsNothingAndLosesNothing(t *testing.T) {
	bubble(t, retrysafe.Policy{}, queuesafe.Options{MaxDeliveries: 2}, func(k *kit) {
		k.store.claimDown.Store(true)
		k.want(k.handle(order(9), nil), queuesafe.StoreDown, queuesafe.Later)
		k.wantRuns(0)
		k.store.claimDown.Store(false)
		time.Sleep(time.Minute)
		k.want(k.handle(order(10), nil), queuesafe.Processed, queuesafe.Ack)
	})
	bubble(t, retrysafe.Policy{OnStoreError: retrysafe.FailOpen}, queuesafe.Options{}, func(k *kit) {
		k.store.claimDown.Store(true)
		k.want(k.handle(order(1), nil), queuesafe.Unprotected, queuesafe.Ack)
		k.store.claimDown.Store(false)
	})
}

func TestStoppingLeavesMessagesAtOnce(t *testing.T) {
	bubble(t, retrysafe.Policy{}, queuesafe.Options{}, func(k *kit) {
		if err := k.guard.Shutdown(k.ctx); err != nil {
			k.Fatal(err)
		}
		d := k.handle(order(1), nil)
		k.want(d, queuesafe.Stopping, queuesafe.Later)
		if d.Delay != 0 {
			k.Errorf("delay %v", d.Delay)
		}
	})
	bubble(t, retrysafe.Policy{OnInFlight: retrysafe.Wait(time.Hour)}, queuesafe.Options{}, func(k *kit) {
		go k.consumer.Handle(k.ctx, order(1), func(context.Context, queuesafe.Message) error {
			time.Sleep(time.Minute)
			return nil
		})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(k.ctx, time.Second)
		defer cancel()
		k.want(k.consumer.Handle(ctx, order(2), nil), queuesafe.Stopping, queuesafe.Later)
		time.Sleep(time.Minute)
	})
}

// A handler that wraps another guard's answer must not have it taken for its own guard's. Seen to fail with the
// work's own error taken out of the root's situationOf: a retryable failure was of unknown outcome.
func TestHandlersErrorIsNotTheGuards(t *testing.T) {
	for _, inner := range []error{
		retrysafe.ErrStoreFailed, retrysafe.ErrShutdown,
		&retrysafe.Refusal{Reason: retrysafe.ErrMismatch},
	} {
		bubble(t, retrysafe.Policy{}, queuesafe.Options{}, func(k *kit) {
			err := retrysafe.Retryable(fmt.Errorf("inner: %w", inner))
			k.want(k.handle(order(1), err), queuesafe.Retryable, queuesafe.Later)
		})
	}
}

// A panic affects only its message, whose outcome is then unknown. Seen to fail with the panic marked Terminal: the
// message was dead at once, and with Rerun never ran again.
func TestPanicLeavesTheOutcomeUnknown(t *testing.T) {
	panics := func(context.Context, queuesafe.Message) error { panic("secret") }
	bubble(t, retrysafe.Policy{OnAbandoned: retrysafe.Rerun()}, queuesafe.Options{MaxAttempts: 3}, func(k *kit) {
		k.want(k.consumer.Handle(k.ctx, order(1), panics), queuesafe.Unknown, queuesafe.Later)
		k.want(k.handle(order(2), nil), queuesafe.Processed, queuesafe.Ack)
	})
	bubble(t, retrysafe.Policy{OnAbandoned: retrysafe.Rerun()}, queuesafe.Options{MaxAttempts: 3}, func(k *kit) {
		for range 3 {
			k.want(k.consumer.Handle(k.ctx, order(1), panics), queuesafe.Unknown, queuesafe.Later)
		}
		k.want(k.handle(order(4), nil), queuesafe.Poison, queuesafe.Dead)
	})
	bubble(t, retrysafe.Policy{}, queuesafe.Options{}, func(k *kit) {
		d := k.consumer.Handle(k.ctx, order(1), panics)
		k.want(d, queuesafe.Unknown, queuesafe.Later)
		var panicked *queuesafe.PanicError
		if !errors.As(d.Err, &panicked) || panicked.Value != "secret" || len(panicked.Stack) == 0 {
			k.Errorf("the error is %#v", d.Err)
		}
		if strings.Contains(d.Err.Error(), "secret") {
			k.Errorf("the record says %q", d.Err)
		}
	})
}

// A message needs no answer, so past the replay window it still is a duplicate.
func TestDoneLongAgoIsDone(t *testing.T) {
	keep := retrysafe.Retention{Replay: time.Hour, Key: 24 * time.Hour}
	bubble(t, retrysafe.Policy{Retention: keep}, queuesafe.Options{}, func(k *kit) {
		k.want(k.handle(order(1), nil), queuesafe.Processed, queuesafe.Ack)
		bad := order(1)
		bad.ID = "m-2"
		k.want(k.handle(bad, errBank), queuesafe.Failed, queuesafe.Dead)
		time.Sleep(2 * time.Hour)
		k.want(k.handle(order(2), nil), queuesafe.Duplicate, queuesafe.Ack)
		k.want(k.handle(bad, nil), queuesafe.Failed, queuesafe.Dead)
	})
}

// Seen to fail with stop taken out of Handle: the broker was asked to keep what had been settled.
func TestMessageIsKeptWhileItIsHandled(t *testing.T) {
	bubble(t, retrysafe.Policy{}, queuesafe.Options{}, func(k *kit) {
		m, extended := order(1), 0
		m.ExtendEvery = 10 * time.Second
		m.Extend = func(context.Context) error { extended++; return errBank }
		k.consumer.Handle(k.ctx, m, func(context.Context, queuesafe.Message) error {
			time.Sleep(65 * time.Second)
			return nil
		})
		time.Sleep(time.Hour)
		if extended != 6 {
			k.Errorf("extended %d times in 65 s, want 6", extended)
		}
		if len(k.events) != 7 || k.events[0].Kind != queuesafe.ExtendFailed || k.events[0].Err != errBank {
			k.Errorf("the observer was told %v", k.events)
		}
	})
}

// A broker that does not answer once, as on a connection that is lost without a word, is asked again: SQS would count
// the deliveries to other consumers, and its redrive policy gives a message up while it is being handled.
// Seen to fail with WithCancel in place of WithTimeout: it was called once.
func TestExtendThatHangs(t *testing.T) {
	bubble(t, retrysafe.Policy{}, queuesafe.Options{}, func(k *kit) {
		m, began := order(1), time.Now()
		var at []time.Duration
		m.ExtendEvery = 10 * time.Second
		m.Extend = func(ctx context.Context) error {
			if at = append(at, time.Since(began)); len(at) == 1 {
				<-ctx.Done()
			}
			return ctx.Err()
		}
		k.consumer.Handle(k.ctx, m, func(context.Context, queuesafe.Message) error {
			time.Sleep(40 * time.Second)
			return nil
		})
		if want := []time.Duration{10 * time.Second, 25 * time.Second, 35 * time.Second}; !slices.Equal(at, want) {
			k.Errorf("extended after %v, want %v: the visibility is three times as long as the pause", at, want)
		}
		if len(k.events) != 2 || k.events[0].Kind != queuesafe.ExtendFailed {
			k.Errorf("the observer was told %v", k.events)
		}
	})
}

func TestDelaysGrowWithinBounds(t *testing.T) {
	bubble(t, retrysafe.Policy{}, queuesafe.Options{MinDelay: 4 * time.Second, MaxDelay: time.Minute}, func(k *kit) {
		longest := []time.Duration{
			0: 4 * time.Second, 1: 4 * time.Second, 2: 8 * time.Second, 3: 16 * time.Second,
			9: time.Minute, 19: time.Minute,
		}
		for n, d := range longest {
			if d == 0 {
				continue
			}
			got := k.handle(order(n), retrysafe.Retryable(errBank)).Delay
			if got > d || got < d*3/4 {
				k.Errorf("delivery %d: delay %v, want %v or up to a quarter less", n, got, d)
			}
		}
	})
}

func TestConsumersOfOneTopicAreApart(t *testing.T) {
	bubble(t, retrysafe.Policy{}, queuesafe.Options{}, func(k *kit) {
		k.want(k.handle(order(1), nil), queuesafe.Processed, queuesafe.Ack)
		mail := queuesafe.New(k.guard, "mail", queuesafe.Options{})
		k.want(mail.Handle(k.ctx, order(1), func(context.Context, queuesafe.Message) error { return nil }),
			queuesafe.Processed, queuesafe.Ack)
		k.consumer = newConsumer(k.T, k.guard, queuesafe.Options{Version: "v2"})
		k.want(k.handle(order(1), nil), queuesafe.Processed, queuesafe.Ack)
	})
}

// Seen to fail with either check taken out of New.
func TestNewPanics(t *testing.T) {
	notAPointer := queuesafe.FingerprintFields(fingerprint.Fields{Include: []string{"a"}})
	for want, wrong := range map[string]func(){
		"needs a name": func() { queuesafe.New(nil, "", queuesafe.Options{}) },
		"Fingerprint":  func() { queuesafe.New(nil, "x", queuesafe.Options{Fingerprint: notAPointer}) },
	} {
		func() {
			defer func() {
				if p := fmt.Sprint(recover()); !strings.Contains(p, want) {
					t.Errorf("panic %q, want one about %q", p, want)
				}
			}()
			wrong()
		}()
	}
}

// Nothing that an observer prints shows a key.
func TestObserverIsToldWithoutTheKey(t *testing.T) {
	bubble(t, retrysafe.Policy{}, queuesafe.Options{}, func(k *kit) {
		k.handle(order(2), nil)
		k.handle(queuesafe.Message{Source: "orders"}, nil)
		e := k.events[0]
		if e.Kind != queuesafe.Handled || e.Consumer != "billing" || e.Source != "orders" || e.Delivery != 2 {
			k.Errorf("told %+v", e)
		}
		if text := fmt.Sprintf("%v %+v %#v", e, e, e); strings.Contains(text, "m-1") {
			k.Errorf("the key is in %s", text)
		}
		if e := k.events[1]; e.Disposition.Situation != queuesafe.NoKey || !errors.Is(e.Err, queuesafe.ErrNoKey) {
			k.Errorf("told %+v", e)
		}
	})
}

// Seen to fail with stop called after run instead of deferred: the message was extended for ever without a handler.
func TestGoexitEndsTheHold(t *testing.T) {
	bubble(t, retrysafe.Policy{}, queuesafe.Options{}, func(k *kit) {
		var extends atomic.Int64
		m := order(1)
		m.ExtendEvery = time.Second
		m.Extend = func(context.Context) error { extends.Add(1); return nil }
		go k.consumer.Handle(k.ctx, m, func(context.Context, queuesafe.Message) error {
			runtime.Goexit()
			return nil
		})
		synctest.Wait()
		time.Sleep(time.Minute)
		if n := extends.Load(); n != 0 {
			t.Errorf("extended %d times after the end", n)
		}
	})
}
