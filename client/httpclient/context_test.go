package httpclient_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/client"
	"github.com/retrysafe/retrysafe/client/httpclient"
)

func newClient(t *testing.T, o httpclient.Options) *httpclient.Client {
	t.Helper()
	caller := httpclient.New(o)
	return caller
}

// do sends a request that was made with one context with another one.
func do(caller *httpclient.Client, ctx context.Context, r *http.Request) error {
	response, err := caller.Do(ctx, r)
	if err == nil {
		err = response.Body.Close()
	}
	return err
}

// The attempt is found in either context, so that a call has its child key however the request was made.
// Seen to fail with Do as it was, which dropped the request's own context: a random key, and another one on each
// attempt.
func TestDoUsesBothContexts(t *testing.T) {
	base := &script{answers: []answerFunc{reply(201)}}
	caller := newClient(t, httpclient.Options{Base: base})
	var stepKey string
	parent(t, func(ctx context.Context) {
		outside := context.WithValue(t.Context(), http.LocalAddrContextKey, "any value")
		calls := map[string]func() error{
			"attempt in the request": func() error { return do(caller, outside, chargeAt(ctx, "https://bank.example/a")) },
			"attempt in ctx":         func() error { return do(caller, ctx, chargeAt(outside, "https://bank.example/b")) },
			"attempt in both":        func() error { return do(caller, ctx, chargeAt(ctx, "https://bank.example/c")) },
			"name in the request": func() error {
				return do(caller, outside, chargeAt(client.WithOperation(ctx, "line 1"), "https://bank.example/a"))
			},
		}
		for name, call := range calls {
			if err := call(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		stepKey = inStep(t, ctx, func(inside context.Context) {
			if err := do(caller, ctx, chargeAt(inside, "https://bank.example/d")); err != nil {
				t.Errorf("step in the request: %v", err)
			}
		})
	})
	k := retrysafe.Key{Scope: "till-3", ID: "order-17"}
	want := map[string]bool{
		k.Child("POST https://bank.example/a"): true, k.Child("POST https://bank.example/b"): true,
		k.Child("POST https://bank.example/c"): true, k.Child("line 1"): true, stepKey: true,
	}
	for _, s := range base.sent {
		if key := strings.Trim(s.header.Get("Idempotency-Key"), `"`); !want[key] {
			t.Errorf("%s has the key %s, which is no child key of the attempt, or was used before", s.url, key)
		} else {
			delete(want, key)
		}
	}
	if len(want) > 0 {
		t.Errorf("%d calls were not sent", len(want))
	}
}

// Two attempts have different child keys, so the call is ambiguous.
// Seen to fail with the comparison taken out of joinContexts.
func TestDoRefusesTwoAttempts(t *testing.T) {
	base := &script{answers: []answerFunc{reply(201)}}
	caller := newClient(t, httpclient.Options{Base: base})
	parent(t, func(outer context.Context) {
		parent(t, func(inner context.Context) {
			err := do(caller, inner, charge(outer))
			if err == nil || !strings.Contains(err.Error(), "different attempts") || len(base.sent) != 0 {
				t.Errorf("%v, sent %d times", err, len(base.sent))
			}
		})
	})
}

// A request ends with either of its contexts, and a wait that either would cut short is not begun.
// Seen to fail with the request's own context dropped, with its deadline taken out of joinContexts, and with done
// called before the body was closed.
func TestDoEndsWithEitherContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for _, c := range []struct{ ctx, own context.Context }{{short, t.Context()}, {t.Context(), short}} {
			caller := newClient(t, httpclient.Options{Base: &script{answers: []answerFunc{reply(503, "Retry-After: 5")}}})
			began := time.Now()
			if err := do(caller, c.ctx, charge(c.own)); time.Since(began) != 0 {
				t.Errorf("waited %v: %v", time.Since(began), err)
			} else {
				wantUnknown(t, err, client.GaveUpContext)
			}
		}
		caller := newClient(t, httpclient.Options{Base: &script{answers: []answerFunc{silent}}})
		if err := do(caller, t.Context(), charge(short)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want DeadlineExceeded", err)
		}
		own, stop := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, stop)
		if err := do(caller, t.Context(), charge(own)); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want Canceled", err)
		}
		var sentWith context.Context
		caller = newClient(t, httpclient.Options{
			Base: answerFunc(func(r *http.Request) (*http.Response, error) {
				sentWith = r.Context()
				return reply(201)(r)
			}),
		})
		response, err := caller.Do(t.Context(), charge(t.Context()))
		if err != nil || sentWith.Err() != nil {
			t.Fatalf("%v; before the body is closed the context has ended: %v", err, sentWith.Err())
		}
		response.Body.Close()
	})
}

// A service's client makes up no key: a call that lacks the attempt's context would have another one on the next
// attempt.
// Seen to fail with RequireKey taken out of setKey.
func TestRequireKey(t *testing.T) {
	base := &script{answers: []answerFunc{reply(201)}}
	caller := newClient(t, httpclient.Options{Options: client.Options{RequireKey: true}, Base: base})
	if err := do(caller, t.Context(), charge(t.Context())); !errors.Is(err, client.ErrKeyRequired) || len(base.sent) != 0 {
		t.Errorf("a request that nothing names: %v, sent %d times", err, len(base.sent))
	}
	intent := client.WithIntent(t.Context(), retrysafe.Intent{Operation: "charge", Params: []string{"order-17"}})
	if err := do(caller, intent, charge(t.Context())); err != nil {
		t.Errorf("with an intent: %v", err)
	}
	if err := do(caller, client.WithKey(t.Context(), "k1"), charge(t.Context())); err != nil {
		t.Errorf("with a key: %v", err)
	}
	if err := do(caller, t.Context(), withKey("k2")(charge(t.Context()))); err != nil {
		t.Errorf("with a key of its own: %v", err)
	}
	parent(t, func(ctx context.Context) {
		if err := do(caller, ctx, charge(t.Context())); err != nil {
			t.Errorf("inside an attempt: %v", err)
		}
		if err := do(caller, t.Context(), charge(t.Context())); !errors.Is(err, client.ErrKeyRequired) {
			t.Errorf("inside an attempt, without its context: %v", err)
		}
	})
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://bank.example/charges", nil)
	if err := do(caller, t.Context(), r); err != nil {
		t.Errorf("a request that takes no key: %v", err)
	}
}
