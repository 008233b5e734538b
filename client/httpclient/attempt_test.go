package httpclient_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/client"
	"github.com/retrysafe/retrysafe/client/httpclient"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// parent runs work in an attempt at key "order-17", and again after it was cut off.
func parent(t *testing.T, attempts ...func(ctx context.Context)) {
	t.Helper()
	guard := retrysafe.New(memstore.New(memstore.Options{}),
		retrysafe.Options{SweepEvery: -1, Policy: retrysafe.Policy{OnAbandoned: retrysafe.Rerun()}})
	for _, work := range attempts {
		guard.Do(t.Context(), retrysafe.Request{Key: retrysafe.Key{Scope: "till-3", ID: "order-17"}},
			func(ctx context.Context, _ *retrysafe.Attempt) (retrysafe.Result, error) {
				work(ctx)
				return retrysafe.Result{}, retrysafe.Unknown(errors.New("cut off"))
			})
	}
}

// keysByURL returns the keys that were sent, by URL and body.
func (s *script) keysByURL() map[string]string {
	keys := map[string]string{}
	for _, one := range s.sent {
		keys[one.url+" "+one.body] = one.header.Get("Idempotency-Key")
	}
	return keys
}

func callTo(t *testing.T, transport *httpclient.Transport, ctx context.Context, url, body string) error {
	t.Helper()
	r := chargeAt(ctx, url)
	r.Body = &closeCounter{Reader: strings.NewReader(body)}
	r.ContentLength = int64(len(body))
	response, err := transport.RoundTrip(r)
	if err == nil {
		response.Body.Close()
	}
	return err
}

// Calls made inside an attempt have keys that are the same on every attempt, in whatever order it makes them.
// Seen to fail with the child key taken out of setKey.
func TestCallsInsideAnAttemptHaveChildKeys(t *testing.T) {
	base := &script{answers: []answerFunc{reply(201)}}
	transport := newTransport(t, httpclient.Options{Base: base})
	call := func(ctx context.Context, url, body string) {
		if err := callTo(t, transport, ctx, url, body); err != nil {
			t.Error(err)
		}
	}
	steps := []func(ctx context.Context){
		func(ctx context.Context) { call(ctx, "https://bank.example/charges", "17") },
		func(ctx context.Context) { call(ctx, "https://mail.example/mails?dry=1", "paid") },
		func(ctx context.Context) {
			call(client.WithOperation(ctx, "line 1"), "https://stock.example/reservations", "a")
		},
		func(ctx context.Context) {
			call(client.WithOperation(ctx, "line 2"), "https://stock.example/reservations", "b")
		},
	}
	var first map[string]string
	parent(t, func(ctx context.Context) {
		for _, step := range steps {
			step(ctx)
		}
		first = base.keysByURL()
		base.sent = nil
	}, func(ctx context.Context) {
		for i := range steps {
			steps[len(steps)-1-i](ctx)
		}
	})
	again, different := base.keysByURL(), map[string]bool{}
	for where, key := range first {
		different[key] = true
		if again[where] != key || strings.Contains(key, "order-17") || key == "" {
			t.Errorf("%s: key %s, and on the next attempt %s", where, key, again[where])
		}
	}
	if len(different) != len(steps) {
		t.Errorf("keys %v", first)
	}
	want := `"` + retrysafe.Key{Scope: "till-3", ID: "order-17"}.Child("POST https://mail.example/mails") + `"`
	if got := first["https://mail.example/mails?dry=1 paid"]; got != want {
		t.Errorf("key %s, want the child key %s", got, want)
	}
}

// Two calls that look alike must not share a key: we could not tell them apart on the next attempt.
// Seen to fail with NoteCall taken out of childKey: both calls went out under one key.
func TestCallsThatLookAlikeMustBeNamed(t *testing.T) {
	for _, c := range []struct {
		name                    string
		firstName, secondName   string
		firstBody, secondBody   string
		secondURL               string
		refused                 error
		differentKeys, sameKeys bool
	}{
		{name: "the same twice", firstBody: "a", secondBody: "a", refused: client.ErrUnnamedCall},
		{name: "another body", firstBody: "a", secondBody: "b", refused: client.ErrUnnamedCall},
		{
			name: "another query", firstBody: "a", secondBody: "a", secondURL: "https://mail.example/mails?x",
			refused: client.ErrUnnamedCall,
		},
		{
			name: "another path", firstBody: "a", secondBody: "a", secondURL: "https://mail.example/letters",
			differentKeys: true,
		},
		{
			name: "another origin", firstBody: "a", secondBody: "a", secondURL: "http://mail.example/mails",
			differentKeys: true,
		},
		{name: "one is named", secondName: "second", firstBody: "a", secondBody: "a", differentKeys: true},
		{
			name: "both are named", firstName: "first", secondName: "second", firstBody: "a", secondBody: "a",
			differentKeys: true,
		},
		{
			name: "one name, the same request", firstName: "first", secondName: "first", firstBody: "a", secondBody: "a",
			sameKeys: true,
		},
		{
			name: "one name, another request", firstName: "first", secondName: "first", firstBody: "a", secondBody: "b",
			refused: retrysafe.ErrMismatch,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			base := &script{answers: []answerFunc{reply(201)}}
			// Two transports: what was called belongs to the attempt.
			one, other := newTransport(t, httpclient.Options{Base: base}), newTransport(t, httpclient.Options{Base: base})
			named := func(ctx context.Context, name string) context.Context {
				if name == "" {
					return ctx
				}
				return client.WithOperation(ctx, name)
			}
			if c.secondURL == "" {
				c.secondURL = "https://mail.example/mails"
			}
			parent(t, func(ctx context.Context) {
				if err := callTo(t, one, named(ctx, c.firstName), "https://mail.example/mails", c.firstBody); err != nil {
					t.Error(err)
				}
				if err := callTo(t, other, named(ctx, c.secondName), c.secondURL, c.secondBody); !errors.Is(err, c.refused) {
					t.Errorf("the second call: %v", err)
				}
			})
			switch {
			case c.refused != nil && len(base.sent) != 1:
				t.Errorf("sent %d times", len(base.sent))
			case c.refused == nil &&
				(base.sent[0].header.Get("Idempotency-Key") == base.sent[1].header.Get("Idempotency-Key")) != c.sameKeys:
				t.Errorf("keys %v and %v", base.sent[0].header, base.sent[1].header)
			}
		})
	}
}

// What a caller says of its own request is not about the calls that the work makes for it.
// Seen to fail with the comparison of attempts taken out of namedIn: the parent's key went downstream.
func TestAKeyFromOutsideOfTheAttemptDoesNotCount(t *testing.T) {
	base := &script{answers: []answerFunc{reply(201)}}
	transport := newTransport(t, httpclient.Options{Base: base})
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{SweepEvery: -1})
	guard.Do(client.WithKey(t.Context(), "parent"), retrysafe.Request{Key: retrysafe.Key{ID: "parent"}},
		func(ctx context.Context, _ *retrysafe.Attempt) (retrysafe.Result, error) {
			callTo(t, transport, ctx, "https://bank.example/charges", "17")
			callTo(t, transport, client.WithKey(ctx, "inside"), "https://bank.example/charges", "17")
			return retrysafe.Result{}, nil
		})
	if outer, inner := base.sent[0].header.Get("Idempotency-Key"),
		base.sent[1].header.Get("Idempotency-Key"); outer == `"parent"` || inner != `"inside"` {
		t.Errorf("keys %s and %s", outer, inner)
	}
}

// Child keys take the form of the profile.
func TestChildKeysFitTheProfile(t *testing.T) {
	for _, p := range httpsafe.Profiles() {
		server := newGuardedServer(t, httpsafe.Options{Profile: p, Required: true}, nil)
		transport := newTransport(t, httpclient.Options{Profile: p.Profile})
		parent(t, func(ctx context.Context) {
			if err := callTo(t, transport, ctx, server.URL, `{"amount":17}`); err != nil || len(server.keys) != 1 {
				t.Errorf("%s: %v, keys %v", p.Name, err, server.keys)
			}
		})
	}
}
