package retrysafe_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
)

// A client that asks learns the state of its key, and asking changes no record: no lease is extended, and no store call
// but Inspect is made.
//
// Seen to fail with the check of unsaved taken out of ExplainKey, and with a Claim in place of newest: the key was taken.
func TestExplainKey(t *testing.T) {
	digest := pay().Key.Digest()
	bubble(t, retrysafe.Policy{Retention: retrysafe.Retention{Replay: time.Hour, Key: 2 * time.Hour}}, func(k *kit) {
		want := func(g *retrysafe.Guard, s retrysafe.Situation, retryable bool) {
			k.Helper()
			before, _ := k.store.Store.Inspect(k.ctx, digest)
			calls := k.store.count("claim") + k.store.count("extend")
			a := g.ExplainKey(k.ctx, digest)
			if a.Situation != s || a.Retryable != retryable {
				k.Errorf("%v, retryable %t; want %v, %t", a.Situation, a.Retryable, s, retryable)
			}
			after, _ := k.store.Store.Inspect(k.ctx, digest)
			if !reflect.DeepEqual(before, after) || k.store.count("claim")+k.store.count("extend") != calls {
				k.Errorf("the question changed %+v to %+v", before, after)
			}
		}
		rerun := k.guard.With(retrysafe.Policy{OnAbandoned: retrysafe.Rerun()})
		want(k.guard, retrysafe.SituationKeyNotFound, false)
		k.guard.Do(k.ctx, pay(), func(ctx context.Context, a *retrysafe.Attempt) (retrysafe.Result, error) {
			time.Sleep(2 * time.Second)
			want(k.guard, retrysafe.SituationInFlight, true)
			retrysafe.Step(a, "reserve", func(context.Context, string) (int, error) { return 1, nil })
			return retrysafe.Result{}, retrysafe.Retryable(errDown)
		})
		want(k.guard, retrysafe.SituationReleased, true)
		k.guard.Do(k.ctx, pay(), k.failing(retrysafe.Unknown(errDown)))
		want(k.guard, retrysafe.SituationOutcomeUnknown, false)
		want(rerun, retrysafe.SituationOutcomeUnknown, true)
		k.store.down("inspect")
		want(k.guard, retrysafe.SituationStoreUnavailable, true)
		k.store.up()

		k.outage()
		k.store.on("claim", func() (bool, error) { return true, nil })
		rerun.Do(k.ctx, pay(), k.answer("done")) // the end cannot be saved
		time.Sleep(time.Hour)                    // the lease is over
		want(k.guard, retrysafe.SituationUnsaved, true)
		k.store.up()
		time.Sleep(time.Minute)
		want(k.guard, retrysafe.SituationProcessed, false)
		time.Sleep(time.Hour)
		want(k.guard, retrysafe.SituationNotReplayable, false)
		time.Sleep(2 * time.Hour)
		want(k.guard, retrysafe.SituationKeyNotFound, false)

		k.guard.Do(k.ctx, pay(), k.failing(errors.New("declined")))
		want(k.guard, retrysafe.SituationFailed, false)
		time.Sleep(3 * time.Hour)
		k.crash()
		k.resolve(retrysafe.Resolution{Action: retrysafe.ResolveFail, Reason: "not in the ledger"})
		want(k.guard, retrysafe.SituationClosed, false)
	})
	g := retrysafe.New(struct{ retrysafe.Store }{newFaulty()}, retrysafe.Options{})
	if a := g.ExplainKey(t.Context(), digest); a.Situation != retrysafe.SituationNotSupported {
		t.Errorf("a store without Inspect: %v", a.Situation)
	}
}

// late is a store whose answer to Inspect arrives when other things have happened.
type late struct {
	*faulty
	meanwhile func()
}

func (s *late) Inspect(ctx context.Context, d retrysafe.Digest) ([]retrysafe.Record, error) {
	found, err := s.faulty.Inspect(ctx, d)
	s.meanwhile()
	return found, err
}

// An end that is saved while its record is being read is no unknown outcome. Seen to fail with again true from the start.
func TestExplainKeyWhileTheEndIsSaved(t *testing.T) {
	bubble(t, retrysafe.Policy{Lease: 30 * time.Second, HoldUnsaved: -1}, func(k *kit) {
		store := &late{faulty: k.store, meanwhile: func() {
			k.store.up()
			time.Sleep(time.Minute)
		}}
		k.guard = retrysafe.New(store, retrysafe.Options{Policy: k.guard.Policy()})
		k.endInOutage("done", nil)
		time.Sleep(10 * time.Minute)
		if a := k.guard.ExplainKey(k.ctx, pay().Key.Digest()); a.Situation != retrysafe.SituationProcessed {
			k.Errorf("%v, want processed", a.Situation)
		}
	})
}
