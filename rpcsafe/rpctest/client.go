package rpctest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/client"
	"github.com/retrysafe/retrysafe/internal/testing/shoppb"
	"github.com/retrysafe/retrysafe/rpcsafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// clientRules say which keys the client's interceptor sends, and when it retries.
var clientRules = []rule{
	{"client: retries have one key", oneKey},
	{"client: each intent has a key of its own", func(k *kit) {
		u := k.unguarded(rpcsafe.ClientOptions{}, works)
		if err := errors.Join(u.create(), u.create()); err != nil || u.key(0) == u.key(1) || len(u.key(0)) != 36 {
			k.Errorf("%v, calls %v", err, u.calls)
		}
	}},
	{"client: some errors are final", finalErrors},
	{"client: an unknown outcome is said", outcomeUnknown},
	{"client: pushback is obeyed", pushedBack},
	{"client: replays are final", replaysAreFinal},
	{"client: the key is that of the intent", withIntent},
	{"client: the key is that of the context, or of the call", withKey},
	{"client: the key is in a field", keyInField},
	{"client: the request is frozen", frozen},
	{"client: a method without side effects gets no key", func(k *kit) {
		u := k.unguarded(rpcsafe.ClientOptions{}, fails(code.Code_UNAVAILABLE))
		_, err := u.send(k.Context(), Call{Method: "Get", Request: new(shoppb.CreateRequest)})
		if err == nil || len(u.calls) != 1 || u.key(0) != "" {
			k.Errorf("%v, calls %v", err, u.calls)
		}
	}},
	{"client: calls in an attempt have child keys", childKeys},
	{"client: an attempt has its time", attemptTimeout},
	{"client: events say what happened", observed},
}

// unguarded is a server that answers as it is told, and a client that retries.
type unguarded struct {
	*kit
	send  Client
	calls []Call // as the server has seen them
}

var works = rpcsafe.Reply{Message: &shoppb.Thing{ThingId: "thing-1"}}

// unguarded serves the replies, the last one again and again.
func (k *kit) unguarded(o rpcsafe.ClientOptions, replies ...rpcsafe.Reply) *unguarded {
	u := &unguarded{kit: k}
	if o.Backoff == 0 {
		o.Backoff, o.MaxBackoff = time.Millisecond, time.Millisecond
	}
	u.send = k.serve(k.T, Server{Client: &o, Handle: func(_ context.Context, c Call) rpcsafe.Reply {
		u.calls = append(u.calls, c) // a client makes one call at a time
		return replies[min(len(u.calls), len(replies))-1]
	}})
	return u
}

func (u *unguarded) create() error { return u.createIn(u.Context()) }

func (u *unguarded) createIn(ctx context.Context) error {
	_, err := u.send(ctx, Call{Method: "Create", Request: &shoppb.CreateRequest{Amount: 17}})
	return err
}

func (u *unguarded) key(i int) string { return strings.Join(u.calls[i].Metadata[keyHeader], "|") }

// wantOneKey checks that there were n calls, under one key.
func (u *unguarded) wantOneKey(n int) (key string) {
	u.Helper()
	if len(u.calls) != n || u.key(0) == "" {
		u.Fatalf("%d calls, want %d with a key", len(u.calls), n)
	}
	for i := range u.calls {
		if u.key(i) != u.key(0) {
			u.Errorf("keys %q and %q", u.key(0), u.key(i))
		}
	}
	return u.key(0)
}

// Seen to fail with a key made in each attempt.
func oneKey(k *kit) {
	for _, c := range []code.Code{
		code.Code_UNAVAILABLE, code.Code_INTERNAL, code.Code_UNKNOWN, code.Code_DEADLINE_EXCEEDED, code.Code_RESOURCE_EXHAUSTED,
	} {
		u := k.unguarded(rpcsafe.ClientOptions{}, fails(c), fails(c), works)
		if err := u.create(); err != nil {
			k.Errorf("%v: %v", c, err)
		}
		u.wantOneKey(3)
	}
}

func finalErrors(k *kit) {
	for _, c := range []code.Code{
		code.Code_INVALID_ARGUMENT, code.Code_NOT_FOUND, code.Code_FAILED_PRECONDITION, code.Code_ABORTED,
		code.Code_PERMISSION_DENIED,
	} {
		u := k.unguarded(rpcsafe.ClientOptions{}, fails(c))
		if err := u.create(); err == nil || errors.Is(err, client.ErrOutcomeUnknown) {
			k.Errorf("%v: %v", c, err)
		}
		u.wantOneKey(1)
	}
}

// Seen to fail with unclear not set by attempt.
func outcomeUnknown(k *kit) {
	u := k.unguarded(rpcsafe.ClientOptions{Options: client.Options{Attempts: 3}}, fails(code.Code_UNAVAILABLE))
	reply, err := u.send(k.Context(), Call{Method: "Create", Request: new(shoppb.CreateRequest)})
	var unknown *client.OutcomeUnknownError
	if !errors.Is(err, client.ErrOutcomeUnknown) || !errors.As(err, &unknown) || unknown.Attempts != 3 ||
		code.Code(reply.Status.GetCode()) != code.Code_UNAVAILABLE {
		k.Errorf("%v, %v", err, reply.Status)
	}
	if key := u.wantOneKey(3); strings.Contains(err.Error(), key) || unknown.Key() != key {
		k.Errorf("%v names the key", err)
	}
	u = k.unguarded(rpcsafe.ClientOptions{Options: client.Options{Attempts: 2}}, fails(code.Code_RESOURCE_EXHAUSTED))
	if err := u.create(); err == nil || errors.Is(err, client.ErrOutcomeUnknown) {
		k.Errorf("nothing happened, and yet: %v", err)
	}
	u = k.unguarded(rpcsafe.ClientOptions{}, fails(code.Code_UNAVAILABLE), fails(code.Code_PERMISSION_DENIED))
	if err := u.create(); !errors.Is(err, client.ErrOutcomeUnknown) {
		k.Errorf("a refusal says nothing of the attempt before it: %v", err)
	}
}

// Seen to fail with the adapter leaving the metadata out of replies.
func pushedBack(k *kit) {
	pushed := func(ms string) rpcsafe.Reply {
		r := fails(code.Code_UNAVAILABLE)
		r.Trailer = rpcsafe.Metadata{pushback: {ms}}
		return r
	}
	u := k.unguarded(rpcsafe.ClientOptions{}, pushed("-1"))
	if err := u.create(); !errors.Is(err, client.ErrOutcomeUnknown) {
		k.Error(err)
	}
	u.wantOneKey(1)
	u = k.unguarded(rpcsafe.ClientOptions{}, pushed("150"), works)
	began := time.Now()
	if err := u.create(); err != nil || time.Since(began) < 150*time.Millisecond {
		k.Errorf("%v after %v", err, time.Since(began))
	}
	u = k.unguarded(rpcsafe.ClientOptions{Options: client.Options{MaxRetryAfter: time.Second}}, pushed("1001"))
	if err := u.create(); !errors.Is(err, client.ErrOutcomeUnknown) {
		k.Error(err)
	}
	u.wantOneKey(1)
}

// Seen to fail with the marker not looked at.
func replaysAreFinal(k *kit) {
	for c, unknown := range map[code.Code]bool{code.Code_UNAVAILABLE: false, code.Code_INTERNAL: true} {
		kept := fails(c)
		kept.Header = rpcsafe.Metadata{marker: {"true"}}
		u := k.unguarded(rpcsafe.ClientOptions{}, kept)
		if err := u.create(); err == nil || errors.Is(err, client.ErrOutcomeUnknown) != unknown {
			k.Errorf("%v: %v", c, err)
		}
		u.wantOneKey(1)
	}
}

func withIntent(k *kit) {
	intent := retrysafe.Intent{Operation: "charge", Params: []string{"order-17"}}
	u := k.unguarded(rpcsafe.ClientOptions{}, works)
	ctx := client.WithIntent(k.Context(), intent)
	if err := errors.Join(u.createIn(ctx), u.createIn(ctx)); err != nil || u.wantOneKey(2) != intent.Key() {
		k.Errorf("%v, calls %v", err, u.calls)
	}
	u = k.unguarded(rpcsafe.ClientOptions{KeyField: "request_id"}, works)
	if err := u.createIn(ctx); err != nil || u.calls[0].Request.RequestId != "7de5a88f-fc6a-474f-bc15-3a64d50690bf" {
		k.Errorf("%v, calls %v", err, u.calls) // that of the intent, but for the version
	}
}

func withKey(k *kit) {
	u := k.unguarded(rpcsafe.ClientOptions{}, works)
	ctx := client.WithKey(k.Context(), `order "17"`)
	if err := errors.Join(u.createIn(ctx), u.createIn(ctx)); err != nil || u.wantOneKey(2) != `"order \"17\""` {
		k.Errorf("%v, calls %v", err, u.calls)
	}
	other := Call{Method: "Create", Request: &shoppb.CreateRequest{Amount: 18}}
	if _, err := u.send(ctx, other); !errors.Is(err, retrysafe.ErrMismatch) {
		k.Errorf("another request under the key of the context: %v", err)
	}
	if err := u.createIn(client.WithKey(k.Context(), "Schlüssel")); err == nil || len(u.calls) != 2 {
		k.Errorf("a key that cannot be sent: %v", err)
	}
	other.Metadata = rpcsafe.Metadata{keyHeader: {"mine"}}
	if _, err := u.send(k.Context(), other); err != nil || u.key(2) != "mine" {
		k.Errorf("%v, calls %v", err, u.calls)
	}
}

// Seen to fail with KeyField not looked at by exchangeOut.field.
func keyInField(k *kit) {
	u := k.unguarded(rpcsafe.ClientOptions{KeyField: "request_id"}, fails(code.Code_UNAVAILABLE), works)
	request := &shoppb.CreateRequest{Amount: 17}
	if _, err := u.send(k.Context(), Call{Method: "Create", Request: request}); err != nil {
		k.Fatal(err)
	}
	if id := u.calls[0].Request.RequestId; len(u.calls) != 2 || id != u.calls[1].Request.RequestId || len(id) != 36 ||
		u.key(0) != "" || request.RequestId != "" {
		k.Errorf("calls %v, the caller's request has %q", u.calls, request.RequestId)
	}
}

// Seen to fail without proto.Clone in Call, and with the adapter sending the request itself instead of the copy.
func frozen(k *kit) {
	request := &shoppb.CreateRequest{Amount: 17}
	var amounts []int64
	send := k.serve(k.T, Server{
		Client: &rpcsafe.ClientOptions{Options: client.Options{Backoff: time.Millisecond}},
		Handle: func(_ context.Context, c Call) rpcsafe.Reply {
			amounts = append(amounts, c.Request.Amount)
			request.Amount = 18
			if len(amounts) == 1 {
				return fails(code.Code_UNAVAILABLE)
			}
			return works
		},
	})
	if _, err := send(k.Context(), Call{Method: "Create", Request: request}); err != nil ||
		!slices.Equal(amounts, []int64{17, 17}) {
		k.Errorf("%v, amounts %v", err, amounts)
	}
}

// Seen to fail with the child key taken out of setKey, each attempt called with another key; and with StepFrom taken out
// of childKey: the method's name made the key.
func childKeys(k *kit) {
	u := k.unguarded(rpcsafe.ClientOptions{}, works)
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{})
	parent := retrysafe.Key{ID: "parent"}
	attempt := func(f func(ctx context.Context) error) error {
		_, err := guard.Do(k.Context(), retrysafe.Request{Key: parent}, func(ctx context.Context,
			_ *retrysafe.Attempt,
		) (retrysafe.Result, error) {
			return retrysafe.Result{}, retrysafe.Retryable(errors.Join(f(ctx), errors.New("again")))
		})
		return err
	}
	_, _ = attempt(u.createIn), attempt(u.createIn)
	if want := parent.Child("CALL /shop.v1.Things/Create"); u.wantOneKey(2) != want {
		k.Errorf("key %s, want %s", u.key(0), want)
	}
	err := attempt(func(ctx context.Context) error { return errors.Join(u.createIn(ctx), u.createIn(ctx)) })
	if !errors.Is(err, client.ErrUnnamedCall) {
		k.Errorf("two calls without names: %v", err)
	}
	u.calls = nil
	var step string
	err = attempt(func(ctx context.Context) error {
		_, err := retrysafe.Step(ctx, "charge", func(ctx context.Context, key string) (int, error) {
			step = key
			return 1, errors.Join(u.createIn(ctx), u.createIn(client.WithOperation(ctx, "fee")))
		})
		return err
	})
	if len(u.calls) != 2 || u.key(0) != step || u.key(1) != parent.Child("fee") {
		k.Errorf("%v, calls %v, want the keys %s and %s", err, u.calls, step, parent.Child("fee"))
	}
}

func attemptTimeout(k *kit) {
	calls := make(chan Call, 100) // on a busy machine there are more than two
	o := client.Options{AttemptTimeout: 500 * time.Millisecond, Backoff: time.Millisecond}
	send := k.serve(k.T, Server{Client: &rpcsafe.ClientOptions{Options: o}, Handle: func(ctx context.Context,
		c Call,
	) rpcsafe.Reply {
		if calls <- c; len(calls) == 1 {
			<-ctx.Done() // no answer
			return fails(code.Code_DEADLINE_EXCEEDED)
		}
		return works
	}})
	_, err := send(k.Context(), Call{Method: "Create", Request: new(shoppb.CreateRequest)})
	if err != nil || len(calls) < 2 {
		k.Fatalf("%v after %d calls", err, len(calls))
	}
	if one, two := <-calls, <-calls; !slices.Equal(one.Metadata[keyHeader], two.Metadata[keyHeader]) {
		k.Errorf("keys %q and %q", one.Metadata[keyHeader], two.Metadata[keyHeader])
	}
}

func observed(k *kit) {
	var events []string
	u := k.unguarded(rpcsafe.ClientOptions{Options: client.Options{
		Observer: client.ObserverFunc(func(_ context.Context, e client.Event) { events = append(events, e.Code+" "+e.Signal) }),
	}}, fails(code.Code_INTERNAL), works)
	if err := u.create(); err != nil || !slices.Equal(events, []string{"INTERNAL server-error", "OK success"}) {
		k.Errorf("%v, %q", err, events)
	}
}
