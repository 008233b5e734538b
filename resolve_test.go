package retrysafe_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
)

func decision(action retrysafe.ResolveAction) retrysafe.Resolution {
	r := retrysafe.Resolution{Action: action, Reason: "found in the bank's statement", By: "ada"}
	if action == retrysafe.ResolveComplete {
		r.Result = retrysafe.Result{Code: 201, Body: []byte("paid")}
	}
	return r
}

func (k *kit) resolve(r retrysafe.Resolution) retrysafe.Record {
	k.Helper()
	known, err := k.guard.Resolve(k.ctx, pay().Key.Digest(), r)
	if err != nil {
		k.Fatalf("Resolve = %v", err)
	}
	return known
}

// wantRecord checks that Resolve returned the record that the store has, and returns it.
func (k *kit) wantRecord(got retrysafe.Record, state retrysafe.State) retrysafe.Record {
	k.Helper()
	found, err := k.store.Inspect(k.ctx, pay().Key.Digest())
	if err != nil || len(found) != 1 {
		k.Fatalf("Inspect = %d records, %v", len(found), err)
	}
	want := found[0]
	if want.State != state || got.State != state || got.Fence != want.Fence || got.Attempt != want.Attempt ||
		string(got.Result.Body) != string(want.Result.Body) || len(got.Steps) != len(want.Steps) ||
		(got.KeyLeft-want.KeyLeft).Abs() > time.Second {
		k.Errorf("Resolve returned %+v, the store has %+v, want state %v", got, want, state)
	}
	return want
}

func (k *kit) wantTrail(known retrysafe.Record, want ...retrysafe.AuditEntry) {
	k.Helper()
	trail := known.Trail()
	if len(trail) != len(want) {
		k.Fatalf("Trail = %+v, want %d entries", trail, len(want))
	}
	for i, e := range trail {
		if time.Since(e.At) > time.Hour || time.Since(e.At) < -time.Second {
			k.Errorf("entry %d was made at %v", i, e.At)
		}
		e.At, e.Fence = time.Time{}, 0
		if e != want[i] {
			k.Errorf("entry %d = %+v, want %+v", i, e, want[i])
		}
	}
}

func TestResolveComplete(t *testing.T) {
	bubble(t, retrysafe.Policy{}, func(k *kit) {
		k.crash()
		k.wantRefusal(pay(), retrysafe.ErrAbandoned)
		known := k.wantRecord(k.resolve(decision(retrysafe.ResolveComplete)), retrysafe.Succeeded)
		k.wantTrail(known, retrysafe.AuditEntry{
			Action: "complete", By: "ada", Reason: "found in the bank's statement", Attempt: 2, Code: 201, Bytes: 4,
		})
		k.wantAnswer(pay(), k.answer("must not run"), "paid", true)
		k.wantRefusal(request("pay-1", "raw1:b"), retrysafe.ErrMismatch)
		k.wantRuns(0)
		if k.saw(retrysafe.KeyResolved) != 1 {
			k.Error("the observer was not told")
		}
	})
}

func TestResolveFail(t *testing.T) {
	bubble(t, retrysafe.Policy{}, func(k *kit) {
		k.crash()
		k.wantRecord(k.resolve(decision(retrysafe.ResolveFail)), retrysafe.Failed)
		for range 2 {
			_, err := k.guard.Do(k.ctx, pay(), k.answer("must not run"))
			var f *retrysafe.Failure
			if !errors.As(err, &f) || !f.Resolved || strings.Contains(f.Message, "bank") {
				k.Errorf("Do = %v, want a Failure that was resolved and does not tell the reason", err)
			}
		}
		k.wantRuns(0)
	})
}

func TestResolveRelease(t *testing.T) {
	bubble(t, retrysafe.Policy{}, func(k *kit) {
		k.crash(retrysafe.StepResult{Name: "reserve", Data: []byte(`"r-1"`)})
		k.wantRecord(k.resolve(decision(retrysafe.ResolveRelease)), retrysafe.Released)
		k.wantRefusal(request("pay-1", "raw1:b"), retrysafe.ErrMismatch)
		k.wantAnswer(pay(), func(ctx context.Context, a *retrysafe.Attempt) (retrysafe.Result, error) {
			if steps := a.Steps(); len(steps) != 1 || steps[0].Name != "reserve" {
				k.Errorf("the attempt sees the steps %v", steps)
			}
			_, err := retrysafe.Step(ctx, "reserve", func(context.Context, string) (string, error) { return "r-2", nil })
			if err != nil {
				return retrysafe.Result{}, err
			}
			return k.answer("paid")(ctx, a)
		}, "paid", false)
		k.wantAnswer(pay(), k.answer("must not run"), "paid", true)
		k.wantRuns(1)
		if k.saw(retrysafe.StepUnused) != 0 {
			k.Error("the trail was taken for a step that was not used")
		}
	})
}
