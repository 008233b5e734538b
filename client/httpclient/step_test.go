package httpclient_test

import (
	"context"
	"errors"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/client"
	"github.com/retrysafe/retrysafe/client/httpclient"
)

// inStep makes calls in the step "charge" of an attempt, and returns the step's child key.
func inStep(t *testing.T, ctx context.Context, calls func(ctx context.Context)) (childKey string) {
	t.Helper()
	_, err := retrysafe.Step(ctx, "charge", func(ctx context.Context, key string) (int, error) {
		childKey = key
		calls(ctx)
		return 0, errors.New("cut off before it was saved")
	})
	if err == nil {
		t.Error("the step was saved")
	}
	return childKey
}

// A step's call has the step's child key, though the service has moved when the step runs again.
// Seen to fail with StepFrom taken out of childKey: another key at the new address.
func TestACallInAStepHasItsChildKey(t *testing.T) {
	base := &script{answers: []answerFunc{reply(201)}}
	transport := newTransport(t, httpclient.Options{Base: base})
	var key string
	at := func(url string) func(ctx context.Context) {
		return func(ctx context.Context) {
			key = inStep(t, ctx, func(ctx context.Context) {
				if err := callTo(t, transport, ctx, url, "17"); err != nil {
					t.Error(err)
				}
			})
		}
	}
	parent(t, at("https://bank.example/charges"), at("https://bank-2.example:8443/v2/charges"))
	for _, s := range base.sent {
		if got := s.header.Get("Idempotency-Key"); got != `"`+key+`"` {
			t.Errorf("%s got key %s, want %s", s.url, got, key)
		}
	}
	if len(base.sent) != 2 {
		t.Errorf("sent %d times", len(base.sent))
	}
}

// A step has one key for one call; the record of calls belongs to the attempt.
// Seen to fail with NoteCall taken out of childKey: three calls went out under one key.
func TestASecondCallOfAStepMustBeNamed(t *testing.T) {
	base := &script{answers: []answerFunc{reply(201)}}
	one, other := newTransport(t, httpclient.Options{Base: base}), newTransport(t, httpclient.Options{Base: base})
	var key string
	parent(t, func(ctx context.Context) {
		key = inStep(t, ctx, func(ctx context.Context) {
			for _, c := range []struct {
				transport *httpclient.Transport
				ctx       context.Context
				url, body string
				refused   error
			}{
				{one, ctx, "https://bank.example/charges", "17", nil},
				{one, ctx, "https://bank.example/charges", "17", client.ErrUnnamedCall},
				{other, ctx, "https://bank.example/fees", "1", client.ErrUnnamedCall},
				{other, client.WithOperation(ctx, "fee"), "https://bank.example/fees", "1", nil},
			} {
				if err := callTo(t, c.transport, c.ctx, c.url, c.body); !errors.Is(err, c.refused) {
					t.Errorf("%s: %v, want %v", c.url, err, c.refused)
				}
			}
		})
		if err := callTo(t, one, ctx, "https://bank.example/charges", "17"); err != nil {
			t.Errorf("the same call outside of the step: %v", err)
		}
	})
	k := retrysafe.Key{Scope: "till-3", ID: "order-17"}
	want := []string{key, k.Child("fee"), k.Child("POST https://bank.example/charges")}
	for i, s := range base.sent {
		if got := s.header.Get("Idempotency-Key"); i >= len(want) || got != `"`+want[i]+`"` {
			t.Errorf("call %d had key %s, want one of %v", i+1, got, want)
		}
	}
}
