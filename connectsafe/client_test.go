package connectsafe_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/client"
	"github.com/retrysafe/retrysafe/connectsafe"
	"github.com/retrysafe/retrysafe/internal/testing/shoppb"
	"github.com/retrysafe/retrysafe/rpcsafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// town is a server that is not guarded and answers as it is told, and a client that retries.
type town struct {
	*testing.T
	mu   sync.Mutex
	keys []string

	url     string
	options []connect.ClientOption
	client  *connect.Client[shoppb.CreateRequest, shoppb.Thing]
}

func newTown(t *testing.T, o rpcsafe.ClientOptions, protocol []connect.ClientOption, answers ...error) *town {
	k := &town{T: t}
	url := serve(t, connect.NewUnaryHandler(create, func(_ context.Context, r *in) (*out, error) {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.keys = append(k.keys, r.Header().Get("Idempotency-Key"))
		if err := answers[min(len(k.keys), len(answers))-1]; err != nil {
			return nil, err
		}
		return connect.NewResponse(&shoppb.Thing{ThingId: "1"}), nil
	}))
	o.Backoff, o.MaxBackoff = time.Millisecond, time.Millisecond
	k.url, k.options = url+create, append(protocol, connect.WithInterceptors(connectsafe.NewClientInterceptor(o)))
	k.connect()
	return k
}

// connect makes the client.
func (k *town) connect(further ...connect.ClientOption) {
	k.client = connect.NewClient[shoppb.CreateRequest, shoppb.Thing](h2c(k.T), k.url, append(k.options, further...)...)
}

func (k *town) create(ctx context.Context) error {
	_, err := k.client.CallUnary(ctx, connect.NewRequest(&shoppb.CreateRequest{Amount: 17}))
	return err
}

func (k *town) wantOneKey(n int) {
	k.Helper()
	if len(k.keys) != n || len(slices.Compact(slices.Clone(k.keys))) != 1 || k.keys[0] == "" {
		k.Errorf("%d calls with keys %q, want %d with one key", len(k.keys), k.keys, n)
	}
}

// Seen to fail with the header of the call sent in each attempt.
func TestAttemptsHaveAHeaderEach(t *testing.T) {
	k := newTown(t, rpcsafe.ClientOptions{}, nil, connect.NewError(connect.CodeUnavailable, nil), nil)
	k.connect(connect.WithInterceptors(connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
			if r.Header().Add("Further-In", "once"); len(r.Header()["Further-In"]) != 1 {
				t.Error("an attempt has the header of another")
			}
			return next(ctx, r)
		}
	})))
	if err := k.create(t.Context()); err != nil {
		t.Error(err)
	}
	k.wantOneKey(2)
}

// An answer that is larger than the client takes: the operation has run, although the code asserts the contrary. Seen
// to fail without Begun.
func TestAnswerLargerThanTheClientTakes(t *testing.T) {
	for name, protocol := range speakers() {
		k := newTown(t, rpcsafe.ClientOptions{}, append(protocol, connect.WithReadMaxBytes(1)), nil)
		if err := k.create(t.Context()); connect.CodeOf(err) != connect.CodeResourceExhausted ||
			!errors.Is(err, client.ErrOutcomeUnknown) {
			t.Errorf("%s: %v", name, err)
		}
		k.wantOneKey(4)
	}
}

// Seen to fail with the key written into the caller's header.
func TestTheSameRequestAgainIsAnotherIntent(t *testing.T) {
	k := newTown(t, rpcsafe.ClientOptions{}, nil, nil)
	r := connect.NewRequest(&shoppb.CreateRequest{})
	for range 2 {
		if _, err := k.client.CallUnary(t.Context(), r); err != nil {
			t.Error(err)
		}
	}
	if k.keys[0] == k.keys[1] {
		t.Errorf("keys %q", k.keys)
	}
	r.Header().Set("Idempotency-Key", "mine")
	if _, err := k.client.CallUnary(t.Context(), r); err != nil || k.keys[2] != "mine" ||
		r.Header().Get("Idempotency-Key") != "mine" {
		t.Errorf("%v, keys %q", err, k.keys)
	}
}

func ExampleNewInterceptor() {
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{})
	options := rpcsafe.Options{Required: []string{"shop.v1.Things/*"}}
	handler := connect.NewUnaryHandler(create, func(_ context.Context, r *in) (*out, error) {
		return connect.NewResponse(&shoppb.Thing{ThingId: "thing-1", Amount: r.Msg.Amount}), nil
	}, connect.WithInterceptors(connectsafe.NewInterceptor(guard, connectsafe.ScopeCredential(), options)))
	http.NewServeMux().Handle(create, handler)
}

func ExampleNewClientInterceptor() {
	safe := connect.WithInterceptors(connectsafe.NewClientInterceptor(rpcsafe.ClientOptions{}))
	things := connect.NewClient[shoppb.CreateRequest, shoppb.Thing](http.DefaultClient, "https://shop.example"+create,
		safe)
	intent := retrysafe.Intent{Operation: "charge", Params: []string{"order-17"}}
	ctx := client.WithIntent(context.Background(), intent) // without it: a new key for each call
	_, _ = things, ctx
}
