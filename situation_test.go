package retrysafe_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
)

// TestExplain makes the Guard answer in each situation and checks what a client is advised. Seen to fail with the case
// of callerLeft taken out of situationOf: a canceled request was told that the store is unavailable.
func TestExplain(t *testing.T) {
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	rerun := retrysafe.Policy{OnAbandoned: retrysafe.Rerun()}
	for _, c := range []struct {
		name   string
		policy retrysafe.Policy
		do     func(k *kit) (retrysafe.Outcome, error)
		want   retrysafe.Advice // Title, Detail and Record are not compared
	}{
		{"processed", retrysafe.Policy{}, func(k *kit) (retrysafe.Outcome, error) {
			return k.guard.Do(k.ctx, pay(), k.answer("paid"))
		}, retrysafe.Advice{Situation: retrysafe.SituationProcessed, Executed: retrysafe.ExecutedYes, Final: true}},
		{"replayed", retrysafe.Policy{}, func(k *kit) (retrysafe.Outcome, error) {
			k.guard.Do(k.ctx, pay(), k.answer("paid"))
			return k.guard.Do(k.ctx, pay(), k.answer("paid"))
		}, retrysafe.Advice{Situation: retrysafe.SituationReplayed, Executed: retrysafe.ExecutedYes, Final: true}},
		{"failed", retrysafe.Policy{}, func(k *kit) (retrysafe.Outcome, error) {
			return k.guard.Do(k.ctx, pay(), k.failing(errors.New("declined")))
		}, retrysafe.Advice{Situation: retrysafe.SituationFailed, Executed: retrysafe.ExecutedUnknown, Final: true}},
		{"failed in a protocol's words", retrysafe.Policy{}, func(k *kit) (retrysafe.Outcome, error) {
			return k.guard.Do(k.ctx, pay(), func(context.Context, *retrysafe.Attempt) (retrysafe.Result, error) {
				return retrysafe.Result{Failed: true, Code: 402}, nil
			})
		}, retrysafe.Advice{Situation: retrysafe.SituationFailed, Executed: retrysafe.ExecutedUnknown, Final: true}},
		{"released", retrysafe.Policy{}, func(k *kit) (retrysafe.Outcome, error) {
			return k.guard.Do(k.ctx, pay(), k.failing(retrysafe.Retryable(retrysafe.ErrStoreFailed)))
		}, retrysafe.Advice{Situation: retrysafe.SituationReleased, Executed: retrysafe.ExecutedNo, Retryable: true}},
		{"unknown", retrysafe.Policy{}, func(k *kit) (retrysafe.Outcome, error) {
			return k.guard.Do(k.ctx, pay(), k.failing(retrysafe.Unknown(errors.New("no answer"))))
		}, retrysafe.Advice{Situation: retrysafe.SituationOutcomeUnknown, Executed: retrysafe.ExecutedUnknown, Final: true}},
		{"unknown, and retries resume", rerun, func(k *kit) (retrysafe.Outcome, error) {
			return k.guard.Do(k.ctx, pay(), k.failing(retrysafe.Unknown(errors.New("no answer"))))
		}, retrysafe.Advice{
			Situation: retrysafe.SituationOutcomeUnknown, Executed: retrysafe.ExecutedUnknown, Retryable: true,
			RetryAfter: time.Second,
		}},
		{"abandoned", retrysafe.Policy{}, func(k *kit) (retrysafe.Outcome, error) {
			k.crash()
			return k.guard.Do(k.ctx, pay(), k.answer("paid"))
		}, retrysafe.Advice{Situation: retrysafe.SituationOutcomeUnknown, Executed: retrysafe.ExecutedUnknown, Final: true}},
		{"mismatch", retrysafe.Policy{}, func(k *kit) (retrysafe.Outcome, error) {
			k.guard.Do(k.ctx, pay(), k.answer("paid"))
			return k.guard.Do(k.ctx, request("pay-1", "raw1:b"), k.answer("paid"))
		}, retrysafe.Advice{Situation: retrysafe.SituationMismatch, Executed: retrysafe.ExecutedNo, NewKeyRequired: true}},
		{
			"not replayable",
			retrysafe.Policy{Retention: retrysafe.Retention{Replay: time.Minute, Key: time.Hour}},
			func(k *kit) (retrysafe.Outcome, error) {
				k.guard.Do(k.ctx, pay(), k.answer("paid"))
				time.Sleep(2 * time.Minute)
				return k.guard.Do(k.ctx, pay(), k.answer("paid"))
			},
			retrysafe.Advice{
				Situation: retrysafe.SituationNotReplayable, Executed: retrysafe.ExecutedYes,
				NewKeyRequired: true,
			},
		},
		{"in flight", retrysafe.Policy{}, func(k *kit) (retrysafe.Outcome, error) {
			go k.guard.Do(k.ctx, pay(), k.taking(time.Minute, "paid"))
			time.Sleep(3 * time.Second)
			return k.guard.Do(k.ctx, pay(), k.answer("paid"))
		}, retrysafe.Advice{
			Situation: retrysafe.SituationInFlight, Executed: retrysafe.ExecutedUnknown, Retryable: true,
			RetryAfter: 3 * time.Second,
		}},
		{
			"waited in vain",
			retrysafe.Policy{OnInFlight: retrysafe.Wait(time.Second)},
			func(k *kit) (retrysafe.Outcome, error) {
				go k.guard.Do(k.ctx, pay(), k.taking(time.Minute, "paid"))
				time.Sleep(time.Second)
				return k.guard.Do(k.ctx, pay(), k.answer("paid"))
			},
			retrysafe.Advice{
				Situation: retrysafe.SituationInFlight, Executed: retrysafe.ExecutedUnknown, Retryable: true,
				RetryAfter: 1010 * time.Millisecond, // the age of the attempt when the store was asked last
			},
		},
		{
			"canceled while waiting",
			retrysafe.Policy{OnInFlight: retrysafe.Wait(time.Minute)},
			func(k *kit) (retrysafe.Outcome, error) {
				go k.guard.Do(k.ctx, pay(), k.taking(time.Minute, "paid"))
				time.Sleep(time.Second)
				ctx, stop := context.WithTimeout(k.ctx, time.Second)
				defer stop()
				return k.guard.Do(ctx, pay(), k.answer("paid"))
			},
			retrysafe.Advice{Situation: retrysafe.SituationCanceled, Executed: retrysafe.ExecutedUnknown, Retryable: true},
		},
		{"canceled before", retrysafe.Policy{}, func(k *kit) (retrysafe.Outcome, error) {
			return k.guard.Do(canceled, pay(), k.answer("paid"))
		}, retrysafe.Advice{Situation: retrysafe.SituationCanceled, Executed: retrysafe.ExecutedUnknown, Retryable: true}},
		{"store failed", retrysafe.Policy{}, func(k *kit) (retrysafe.Outcome, error) {
			k.store.on("claim", func() (bool, error) { return false, context.DeadlineExceeded })
			return k.guard.Do(k.ctx, pay(), k.answer("paid"))
		}, retrysafe.Advice{
			Situation: retrysafe.SituationStoreUnavailable, Executed: retrysafe.ExecutedNo, Retryable: true,
			RetryAfter: time.Second,
		}},
		{"unprotected", retrysafe.Policy{OnStoreError: retrysafe.FailOpen}, func(k *kit) (retrysafe.Outcome, error) {
			k.store.down("claim")
			return k.guard.Do(k.ctx, pay(), k.answer("paid"))
		}, retrysafe.Advice{Situation: retrysafe.SituationUnprotected, Executed: retrysafe.ExecutedYes}},
		{"unsaved", retrysafe.Policy{}, func(k *kit) (retrysafe.Outcome, error) {
			k.store.down("complete")
			defer k.store.up()
			return k.guard.Do(k.ctx, pay(), k.answer("paid"))
		}, retrysafe.Advice{Situation: retrysafe.SituationUnsaved, Executed: retrysafe.ExecutedYes, Retryable: true}},
		{"no key", retrysafe.Policy{}, func(k *kit) (retrysafe.Outcome, error) {
			return k.guard.Do(k.ctx, retrysafe.Request{}, k.answer("paid"))
		}, retrysafe.Advice{
			Situation: retrysafe.SituationKeyMalformed, Executed: retrysafe.ExecutedNo,
			NewKeyRequired: true,
		}},
		{"shutting down", retrysafe.Policy{}, func(k *kit) (retrysafe.Outcome, error) {
			k.guard.Shutdown(k.ctx)
			return k.guard.Do(k.ctx, pay(), k.answer("paid"))
		}, retrysafe.Advice{
			Situation: retrysafe.SituationShuttingDown, Executed: retrysafe.ExecutedNo, Retryable: true, RetryAfter: time.Second,
		}},
		{"an error of another package", retrysafe.Policy{}, func(k *kit) (retrysafe.Outcome, error) {
			return retrysafe.Outcome{}, errors.New("broken pipe")
		}, retrysafe.Advice{Situation: retrysafe.SituationOutcomeUnknown, Executed: retrysafe.ExecutedUnknown, Final: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, c.policy, func(k *kit) {
				out, err := c.do(k)
				got := k.guard.ExplainOutcome(out, err)
				if got.Title == "" || got.Detail == "" {
					t.Errorf("no text for API clients: %q, %q", got.Title, got.Detail)
				}
				got.Title, got.Detail, got.Record = "", "", retrysafe.Record{}
				if text(got) != text(c.want) {
					t.Errorf("after %v:\n got %s\nwant %s", err, text(got), text(c.want))
				}
				if plain := k.guard.Explain(err); err != nil && plain.Situation != got.Situation {
					t.Errorf("Explain says %v, ExplainOutcome %v", plain.Situation, got.Situation)
				}
				synctest.Wait()
			})
		})
	}
}

func text(a retrysafe.Advice) string {
	b, _ := json.Marshal(a)
	return a.Situation.String() + " " + string(b)
}

// TestExplainTellsWhichRecordDecided checks what adapters word their answers with: the age of the key.
func TestExplainTellsWhichRecordDecided(t *testing.T) {
	bubble(t, retrysafe.Policy{}, func(k *kit) {
		k.guard.Do(k.ctx, pay(), k.failing(errors.New("declined")))
		time.Sleep(time.Hour)
		if a := k.guard.ExplainOutcome(k.guard.Do(k.ctx, pay(), k.answer("paid"))); a.Record.Age != time.Hour {
			t.Errorf("replayed failure: age %v, want %v", a.Record.Age, time.Hour)
		}
		_, err := k.guard.Do(k.ctx, request("pay-1", "raw1:b"), k.answer("paid"))
		if a := k.guard.Explain(fmt.Errorf("pay: %w", err)); a.Record.Age != time.Hour || a.Record.Key != pay().Key {
			t.Errorf("mismatch: age %v of %v, want %v of %v", a.Record.Age, a.Record.Key, time.Hour, pay().Key)
		}
	})
}

// Seen to fail without regard to a heartbeat that did not come: a client was told to come back before the lease of a
// dead process ended.
func TestRetryAfterInFlight(t *testing.T) {
	const lease = 30 * time.Second
	guard := newKit(t, retrysafe.Policy{Lease: lease}).guard
	for _, c := range []struct{ age, leaseLeft, want time.Duration }{
		{0, lease, 100 * time.Millisecond},
		{3 * time.Second, 27 * time.Second, 3 * time.Second},   // before the first heartbeat
		{8 * time.Second, 22 * time.Second, 8 * time.Second},   // the same
		{13 * time.Second, 17 * time.Second, 17 * time.Second}, // the heartbeat did not come
		{29 * time.Second, time.Second, time.Second},           // nor did the next
		{5 * time.Minute, 25 * time.Second, 25 * time.Second},  // alive, and slow
		{time.Hour, 45 * time.Second, 30 * time.Second},        // the same, with a longer lease than the policy says
		{2 * time.Second, 0, 2 * time.Second},                  // nothing is known of the lease
	} {
		r := retrysafe.Record{Age: c.age, LeaseLeft: c.leaseLeft}
		if got := guard.Explain(&retrysafe.Refusal{Reason: retrysafe.ErrInFlight, Record: r}).RetryAfter; got != c.want {
			t.Errorf("age %v, %v left: %v, want %v", c.age, c.leaseLeft, got, c.want)
		}
	}
}

// TestSituationsAreComplete checks the table: a name of its own and texts for each situation, and advice that does not
// contradict itself.
func TestSituationsAreComplete(t *testing.T) {
	seen := map[string]retrysafe.Situation{}
	for s := retrysafe.SituationProcessed; s <= retrysafe.SituationRejected; s++ {
		a := s.Advice()
		if other, ok := seen[s.String()]; ok || s.String() == "unknown" {
			t.Errorf("situation %d is named %q, as is %d", s, s, other)
		}
		seen[s.String()] = s
		if a.Situation != s || a.Executed == 0 || a.Title == "" || strings.HasSuffix(a.Title, ".") ||
			!strings.HasSuffix(a.Detail, ".") {
			t.Errorf("%v: %+v", s, a)
		}
		if a.Retryable && (a.Final || a.NewKeyRequired) || a.RetryAfter > 0 && !a.Retryable {
			t.Errorf("%v: a retry is advised for and against: %+v", s, a)
		}
	}
	// No record was read, so that "executed: no" says nothing about the key. Seen to fail with "nothing was run".
	for _, s := range []retrysafe.Situation{retrysafe.SituationStoreUnavailable, retrysafe.SituationShuttingDown} {
		if !strings.Contains(s.Advice().Detail, "An earlier request with this key may have run") {
			t.Errorf("%v: a client may take it for news about the key: %s", s, s.Advice().Detail)
		}
	}
	if s := retrysafe.Situation(200); s.String() != "unknown" || s.Advice().Executed != retrysafe.ExecutedNo {
		t.Errorf("%v: %+v", s, s.Advice())
	}
}

// TestAmbiguousPolicy checks which class each policy makes of an ambiguous answer, and that other classes stay.
func TestAmbiguousPolicy(t *testing.T) {
	for p, want := range map[retrysafe.AmbiguousPolicy]retrysafe.Class{
		0:                          retrysafe.ClassStore,
		retrysafe.AmbiguousStore:   retrysafe.ClassStore,
		retrysafe.AmbiguousRelease: retrysafe.ClassRelease,
		retrysafe.AmbiguousUnknown: retrysafe.ClassUnknown,
	} {
		if got := p.Apply(retrysafe.ClassAmbiguous); got != want {
			t.Errorf("%v makes %v of an ambiguous answer, want %v", p, got, want)
		}
		for _, c := range []retrysafe.Class{retrysafe.ClassStore, retrysafe.ClassRelease, retrysafe.ClassUnknown} {
			if got := p.Apply(c); got != c {
				t.Errorf("%v makes %v of %v", p, got, c)
			}
		}
	}
	for _, c := range []struct {
		given     retrysafe.AmbiguousPolicy
		abandoned retrysafe.AbandonedPolicy
		want      retrysafe.AmbiguousPolicy
	}{
		{0, retrysafe.AbandonedPolicy{}, retrysafe.AmbiguousStore},
		{0, retrysafe.Refuse(), retrysafe.AmbiguousStore},
		{0, retrysafe.Rerun(), retrysafe.AmbiguousUnknown},
		{0, retrysafe.Reconcile(nil), retrysafe.AmbiguousUnknown},
		{0, retrysafe.RerunTx(), retrysafe.AmbiguousRelease},
		{retrysafe.AmbiguousRelease, retrysafe.Rerun(), retrysafe.AmbiguousRelease},
	} {
		if got := c.given.Or(retrysafe.Policy{OnAbandoned: c.abandoned}); got != c.want {
			t.Errorf("%v under %v: %v, want %v", c.given, c.abandoned, got, c.want)
		}
	}
}

// TestPoliciesAreCompared checks Equal, which the zero policies take for their defaults.
func TestPoliciesAreCompared(t *testing.T) {
	abandoned := []retrysafe.AbandonedPolicy{
		retrysafe.Refuse(), retrysafe.Rerun(), retrysafe.Reconcile(nil), retrysafe.RerunTx(),
	}
	inFlight := []retrysafe.InFlightPolicy{
		retrysafe.Reject(), retrysafe.Wait(time.Second), retrysafe.Wait(time.Minute),
		retrysafe.Wait(time.Hour),
	}
	for i := range abandoned {
		for j := range abandoned {
			if abandoned[i].Equal(abandoned[j]) != (i == j) || inFlight[i].Equal(inFlight[j]) != (i == j) {
				t.Errorf("policies %d and %d: %v, %v", i, j, abandoned[i].Equal(abandoned[j]), inFlight[i].Equal(inFlight[j]))
			}
		}
	}
	if !retrysafe.Refuse().Equal(retrysafe.AbandonedPolicy{}) || !(retrysafe.InFlightPolicy{}).Equal(retrysafe.Reject()) {
		t.Error("the zero policies are not their defaults")
	}
	got := retrysafe.Policy{Timeout: -1, Retention: retrysafe.Retention{Key: time.Hour}}.WithDefaults()
	if want := newKit(t, retrysafe.Policy{Timeout: -1, Retention: retrysafe.Retention{Key: time.Hour}}).
		guard.Policy(); policyText(got) != policyText(want) {
		t.Errorf("WithDefaults: %s; a Guard has %s", policyText(got), policyText(want))
	}
	if got.Lease != 30*time.Second || got.Retention.Replay != time.Hour || got.Timeout != -1 {
		t.Errorf("WithDefaults: %s", policyText(got))
	}
}

func policyText(p retrysafe.Policy) string { return fmt.Sprintf("%+v", p) }

// TestWithObserver checks that both observers are told of a derived Guard's requests, in order, and only the first of
// the original's; and that With keeps them. Seen to fail with observers left out of With.
func TestWithObserver(t *testing.T) {
	bubble(t, retrysafe.Policy{}, func(k *kit) {
		var told []string
		observed := k.guard.WithObserver(retrysafe.ObserverFunc(func(_ context.Context, e retrysafe.Event) {
			if k.saw(e.Kind) == 0 {
				t.Errorf("%v was told to the second observer first", e.Kind)
			}
			told = append(told, e.Kind.String())
		})).With(retrysafe.Policy{Lease: time.Minute})
		observed.Do(k.ctx, pay(), k.answer("paid"))
		k.guard.Do(k.ctx, pay(), k.answer("paid"))
		if got := strings.Join(told, " "); got != "attempt_started work_succeeded" {
			t.Errorf("the second observer was told %q", got)
		}
		if k.saw(retrysafe.AttemptStarted) != 1 || k.saw(retrysafe.AnswerReplayed) != 1 {
			t.Error("the first observer was not told of both requests")
		}
	})
}

// A caller that has used up its quota still gets what is known of its keys. Seen to fail with the case of KeyLeft taken
// out of ExplainQuota, with that of Pending, and with that of an err other than ErrKeyUnknown.
func TestExplainQuota(t *testing.T) {
	bubble(t, retrysafe.Policy{OnInFlight: retrysafe.Wait(time.Hour)}, func(k *kit) {
		want := func(situation retrysafe.Situation, executed retrysafe.Executed, wait time.Duration) {
			k.Helper()
			a, refused := k.guard.ExplainQuota(k.ctx, pay().Key, 7*time.Second)
			if !refused || a.Situation != situation || a.Executed != executed || a.RetryAfter != wait {
				k.Errorf("refused %v, %v, executed %v, wait %v; want %v, %v, %v", refused, a.Situation, a.Executed,
					a.RetryAfter, situation, executed, wait)
			}
		}
		passes := func(why string) {
			k.Helper()
			if a, refused := k.guard.ExplainQuota(k.ctx, pay().Key, time.Second); refused {
				k.Errorf("%s: refused: %v", why, a.Situation)
			}
		}
		want(retrysafe.SituationQuotaExceeded, retrysafe.ExecutedNo, 7*time.Second)
		k.guard.Do(k.ctx, pay(), func(context.Context, *retrysafe.Attempt) (retrysafe.Result, error) {
			time.Sleep(2 * time.Second)
			want(retrysafe.SituationInFlight, retrysafe.ExecutedUnknown, 2*time.Second)
			return retrysafe.Result{}, retrysafe.Unknown(errDown)
		})
		passes("abandoned")
		k.guard.With(retrysafe.Policy{OnAbandoned: retrysafe.Rerun()}).Do(k.ctx, pay(), k.answer("done"))
		passes("ended")
		k.store.down("inspect")
		want(retrysafe.SituationQuotaExceeded, retrysafe.ExecutedUnknown, 7*time.Second)
		k.store.up()
		time.Sleep(8 * 24 * time.Hour) // past the retention: the key is free
		want(retrysafe.SituationQuotaExceeded, retrysafe.ExecutedNo, 7*time.Second)
	})
}
