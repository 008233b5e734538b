package grpcsafe_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/client"
	"github.com/retrysafe/retrysafe/grpcsafe"
	"github.com/retrysafe/retrysafe/internal/testing/shoppb"
	"github.com/retrysafe/retrysafe/rpcsafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// town is a server that is not guarded and answers as it is told, and a client that retries.
type town struct {
	*testing.T
	mu      sync.Mutex
	keys    []string
	ids     []string
	amounts []int64
	conn    *grpc.ClientConn
}

func fails(c codes.Code, trailer ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		return errors.Join(grpc.SetTrailer(ctx, metadata.Pairs(trailer...)), status.Error(c, "no"))
	}
}

func works(context.Context) error { return nil }

func newTown(t *testing.T, o rpcsafe.ClientOptions, answers ...func(context.Context) error) *town {
	k := &town{T: t}
	address := serve(t, func(ctx context.Context, in *shoppb.CreateRequest) (proto.Message, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		k.mu.Lock()
		k.keys, k.ids, k.amounts = append(k.keys, strings.Join(md["idempotency-key"], "|")),
			append(k.ids, in.RequestId), append(k.amounts, in.Amount)
		n := min(len(k.keys), len(answers)) - 1
		k.mu.Unlock()
		return &shoppb.Thing{ThingId: "thing-1"}, answers[n](ctx)
	}, grpc.UnaryInterceptor(pass))
	if o.Backoff == 0 {
		o.Backoff, o.MaxBackoff = time.Millisecond, time.Millisecond
	}
	k.conn = connect(t, address, grpc.WithUnaryInterceptor(grpcsafe.UnaryClientInterceptor(o)))
	return k
}

// create calls Create.
func (k *town) create(ctx context.Context) error {
	return k.conn.Invoke(ctx, create, &shoppb.CreateRequest{Amount: 17}, new(shoppb.Thing))
}

// wantOneKey checks that there were n calls, under one key.
func (k *town) wantOneKey(n int) (key string) {
	k.Helper()
	if len(k.keys) != n || len(slices.Compact(slices.Clone(k.keys))) != 1 || k.keys[0] == "" {
		k.Fatalf("%d calls with keys %q, want %d with one key", len(k.keys), k.keys, n)
	}
	return k.keys[0]
}

// Seen to fail with a key made in each attempt.
func TestRetriesHaveOneKey(t *testing.T) {
	for _, c := range []codes.Code{
		codes.Unavailable, codes.Internal, codes.Unknown, codes.DeadlineExceeded,
		codes.ResourceExhausted,
	} {
		k := newTown(t, rpcsafe.ClientOptions{}, fails(c), fails(c), works)
		if err := k.create(t.Context()); err != nil {
			t.Errorf("%v: %v", c, err)
		}
		k.wantOneKey(3)
	}
}

func TestEachIntentHasAKeyOfItsOwn(t *testing.T) {
	k := newTown(t, rpcsafe.ClientOptions{}, works)
	if err := errors.Join(k.create(t.Context()), k.create(t.Context())); err != nil || k.keys[0] == k.keys[1] ||
		len(k.keys[0]) != 36 {
		t.Errorf("%v, keys %q", err, k.keys)
	}
}

func TestWhatIsNotRetried(t *testing.T) {
	for _, c := range []codes.Code{
		codes.InvalidArgument, codes.NotFound, codes.FailedPrecondition, codes.Aborted,
		codes.PermissionDenied,
	} {
		k := newTown(t, rpcsafe.ClientOptions{}, fails(c))
		if err := k.create(t.Context()); codeOf(err) != c || errors.Is(err, client.ErrOutcomeUnknown) {
			t.Errorf("%v: %v", c, err)
		}
		k.wantOneKey(1)
	}
}

// Seen to fail with unclear not set by attempt.
func TestOutcomeUnknownIsSaid(t *testing.T) {
	k := newTown(t, rpcsafe.ClientOptions{Options: client.Options{Attempts: 3}}, fails(codes.Unavailable))
	err := k.create(t.Context())
	var unknown *client.OutcomeUnknownError
	if !errors.Is(err, client.ErrOutcomeUnknown) || !errors.As(err, &unknown) || unknown.Attempts != 3 ||
		codeOf(err) != codes.Unavailable {
		t.Errorf("%v", err)
	}
	if key := k.wantOneKey(3); strings.Contains(err.Error(), key) || unknown.Key() != strings.Trim(key, `"`) {
		t.Errorf("%v names the key", err)
	}
	k = newTown(t, rpcsafe.ClientOptions{Options: client.Options{Attempts: 2}}, fails(codes.ResourceExhausted))
	if err := k.create(t.Context()); errors.Is(err, client.ErrOutcomeUnknown) {
		t.Errorf("nothing happened, and yet: %v", err)
	}
	k = newTown(t, rpcsafe.ClientOptions{}, fails(codes.Unavailable), fails(codes.PermissionDenied))
	if err := k.create(t.Context()); !errors.Is(err, client.ErrOutcomeUnknown) || codeOf(err) != codes.PermissionDenied {
		t.Errorf("a refusal says nothing of the attempt before it: %v", err)
	}
}

func TestPushbackIsObeyed(t *testing.T) {
	k := newTown(t, rpcsafe.ClientOptions{}, fails(codes.Unavailable, "grpc-retry-pushback-ms", "-1"))
	if err := k.create(t.Context()); codeOf(err) != codes.Unavailable {
		t.Error(err)
	}
	k.wantOneKey(1)
	k = newTown(t, rpcsafe.ClientOptions{}, fails(codes.Unavailable, "grpc-retry-pushback-ms", "150"), works)
	began := time.Now()
	if err := k.create(t.Context()); err != nil || time.Since(began) < 150*time.Millisecond {
		t.Errorf("%v after %v", err, time.Since(began))
	}
	k = newTown(t, rpcsafe.ClientOptions{Options: client.Options{MaxRetryAfter: time.Second}},
		fails(codes.Unavailable, "grpc-retry-pushback-ms", "1001"))
	if err := k.create(t.Context()); !errors.Is(err, client.ErrOutcomeUnknown) {
		t.Error(err)
	}
	k.wantOneKey(1)
}

// Seen to fail with the marker not looked at.
func TestReplaysAreFinal(t *testing.T) {
	for c, unknown := range map[codes.Code]bool{codes.Unavailable: false, codes.Internal: true} {
		k := newTown(t, rpcsafe.ClientOptions{}, func(ctx context.Context) error {
			return errors.Join(grpc.SetHeader(ctx, metadata.Pairs("idempotent-replayed", "true")), status.Error(c, "kept"))
		})
		if err := k.create(t.Context()); codeOf(err) != c || errors.Is(err, client.ErrOutcomeUnknown) != unknown {
			t.Error(err)
		}
		k.wantOneKey(1)
	}
}

// An answer that is larger than the client takes: the operation has run, although the code asserts the contrary. Seen
// to fail without Begun.
func TestAnswerLargerThanTheClientTakes(t *testing.T) {
	k := newTown(t, rpcsafe.ClientOptions{}, works)
	err := k.conn.Invoke(t.Context(), create, &shoppb.CreateRequest{Amount: 17}, new(shoppb.Thing),
		grpc.MaxCallRecvMsgSize(1))
	if codeOf(err) != codes.ResourceExhausted || !errors.Is(err, client.ErrOutcomeUnknown) {
		t.Error(err)
	}
	k.wantOneKey(4)
}

func TestWithIntent(t *testing.T) {
	intent := retrysafe.Intent{Operation: "charge", Params: []string{"order-17"}}
	k := newTown(t, rpcsafe.ClientOptions{}, works)
	ctx := client.WithIntent(t.Context(), intent)
	if err := errors.Join(k.create(ctx), k.create(ctx)); err != nil ||
		k.wantOneKey(2) != (retrysafe.Intent{Operation: "charge", Params: []string{"order-17"}}).Key() {
		t.Errorf("%v, keys %q", err, k.keys)
	}
	k = newTown(t, rpcsafe.ClientOptions{KeyField: "request_id"}, works)
	if err := k.create(client.WithIntent(t.Context(), intent)); err != nil ||
		k.ids[0] != "7de5a88f-fc6a-474f-bc15-3a64d50690bf" {
		t.Errorf("%v, ids %q", err, k.ids) // that of the intent, but for the version
	}
}

func TestObserver(t *testing.T) {
	var signals []string
	k := newTown(t, rpcsafe.ClientOptions{Options: client.Options{Observer: client.ObserverFunc(func(_ context.Context, e client.Event) {
		signals = append(signals, e.Code+" "+e.Signal)
	})}}, fails(codes.Internal), works)
	if err := k.create(t.Context()); err != nil ||
		!slices.Equal(signals, []string{"INTERNAL server-error", "OK success"}) {
		t.Errorf("%v, %q", err, signals)
	}
}

func TestBudgetEndsRetries(t *testing.T) {
	k := newTown(t, rpcsafe.ClientOptions{Options: client.Options{
		Attempts: 100,
		Budget:   client.RetryBudget{Tokens: 8},
	}}, fails(codes.Unavailable))
	if err := k.create(t.Context()); !errors.Is(err, client.ErrOutcomeUnknown) {
		t.Error(err)
	}
	k.wantOneKey(4) // seen to fail, with 100, without the budget
}

func TestWithKey(t *testing.T) {
	k := newTown(t, rpcsafe.ClientOptions{}, works)
	ctx := client.WithKey(t.Context(), `order "17"`)
	if err := errors.Join(k.create(ctx), k.create(ctx)); err != nil || k.wantOneKey(2) != `"order \"17\""` {
		t.Errorf("%v, keys %q", err, k.keys)
	}
	err := k.conn.Invoke(ctx, create, &shoppb.CreateRequest{Amount: 18}, new(shoppb.Thing))
	if !errors.Is(err, retrysafe.ErrMismatch) {
		t.Errorf("another request under the key of the context: %v", err)
	}
	if err := k.create(client.WithKey(t.Context(), "Schlüssel")); err == nil || len(k.keys) != 2 {
		t.Errorf("a key that cannot be sent: %v", err)
	}
	if err := k.create(metadata.AppendToOutgoingContext(t.Context(), "idempotency-key", "mine")); err != nil ||
		k.keys[2] != "mine" {
		t.Errorf("%v, keys %q", err, k.keys)
	}
}

func TestFieldCarriesTheKey(t *testing.T) {
	k := newTown(t, rpcsafe.ClientOptions{KeyField: "request_id"}, fails(codes.Unavailable), works)
	request := &shoppb.CreateRequest{Amount: 17}
	if err := k.conn.Invoke(t.Context(), create, request, new(shoppb.Thing)); err != nil {
		t.Fatal(err)
	}
	if len(k.ids) != 2 || k.ids[0] != k.ids[1] || len(k.ids[0]) != 36 || k.keys[0] != "" || request.RequestId != "" {
		t.Errorf("ids %q, keys %q, the caller's request has %q", k.ids, k.keys, request.RequestId)
	}
}

// Seen to fail without proto.Clone in Call.
func TestRequestIsFrozen(t *testing.T) {
	request := &shoppb.CreateRequest{Amount: 17}
	k := newTown(t, rpcsafe.ClientOptions{}, func(context.Context) error {
		request.Amount = 18
		return status.Error(codes.Unavailable, "no")
	}, works)
	if err := k.conn.Invoke(t.Context(), create, request, new(shoppb.Thing)); err != nil ||
		!slices.Equal(k.amounts, []int64{17, 17}) {
		t.Errorf("%v, amounts %v", err, k.amounts)
	}
}

func TestSafeMethodsGetNoKey(t *testing.T) {
	k := newTown(t, rpcsafe.ClientOptions{}, fails(codes.Unavailable))
	err := k.conn.Invoke(t.Context(), "/shop.v1.Things/Get", &shoppb.CreateRequest{}, new(shoppb.Thing))
	if codeOf(err) != codes.Unavailable || len(k.keys) != 1 || k.keys[0] != "" {
		t.Errorf("%v, keys %q", err, k.keys)
	}
}

// Seen to fail with the child key taken out of setKey: each attempt called with another key.
func TestChildKeys(t *testing.T) {
	k := newTown(t, rpcsafe.ClientOptions{}, works)
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{})
	calls := func(names ...string) error {
		_, err := guard.Do(t.Context(), retrysafe.Request{Key: retrysafe.Key{ID: "parent"}},
			func(ctx context.Context, _ *retrysafe.Attempt) (retrysafe.Result, error) {
				for _, name := range names {
					if name != "" {
						ctx = client.WithOperation(ctx, name)
					}
					if err := k.create(ctx); err != nil {
						return retrysafe.Result{}, retrysafe.Retryable(err)
					}
				}
				return retrysafe.Result{}, retrysafe.Retryable(errors.New("again"))
			})
		return err
	}
	_, _ = calls(""), calls("")
	k.wantOneKey(2)
	if want := (retrysafe.Key{ID: "parent"}).Child("CALL " + create); k.keys[0] != want {
		t.Errorf("key %s, want %s", k.keys[0], want)
	}
	if err := calls("", ""); !errors.Is(err, client.ErrUnnamedCall) {
		t.Errorf("two calls without names: %v", err)
	}
	_ = calls("first", "second")
	if n := len(k.keys); k.keys[n-1] == k.keys[n-2] {
		t.Errorf("two operations have one key: %q", k.keys)
	}
}

func TestAttemptTimeout(t *testing.T) {
	var first sync.Once
	k := newTown(t, rpcsafe.ClientOptions{Options: client.Options{AttemptTimeout: 300 * time.Millisecond}},
		func(ctx context.Context) (err error) {
			first.Do(func() {
				<-ctx.Done() // no answer
				err = ctx.Err()
			})
			return err
		})
	if err := k.create(t.Context()); err != nil {
		t.Error(err)
	}
	k.wantOneKey(2)
}

// Seen to fail with RequireKey taken out of setKey.
func TestRequireKey(t *testing.T) {
	k := newTown(t, rpcsafe.ClientOptions{Options: client.Options{RequireKey: true}}, works)
	if err := k.create(t.Context()); !errors.Is(err, client.ErrKeyRequired) || len(k.keys) != 0 {
		t.Errorf("%v, keys %q", err, k.keys)
	}
	if err := k.create(client.WithKey(t.Context(), "k1")); err != nil {
		t.Error(err)
	}
}

func TestClientOptionsAreChecked(t *testing.T) {
	for name, o := range map[string]rpcsafe.ClientOptions{
		"a long horizon": {Options: client.Options{Retention: time.Hour, Horizon: time.Hour / 2}},
		"attempts":       {Options: client.Options{Attempts: -1}},
		"in flight":      {Options: client.Options{MaxInFlight: -1}},
		"no unit":        {Options: client.Options{AttemptTimeout: 8}},
		"a method":       {Methods: []string{"Create"}},
		"a field":        {KeyField: "a b"},
	} {
		if err := o.Validate(); err == nil || !strings.HasPrefix(err.Error(), "client: ") &&
			!strings.HasPrefix(err.Error(), "rpcsafe: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// stock is what many channels have: grpc-go retries UNAVAILABLE by itself, and knows nothing of keys.
const stock = `{"methodConfig": [{"name": [{}], "retryPolicy": {
	"maxAttempts": 5, "initialBackoff": "0.01s", "maxBackoff": "0.1s", "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]}}]}`

// Seen to fail with a header on refusals, and with ABORTED.
func TestStockRetryPolicy(t *testing.T) {
	k := newKit(t)
	k.options.InFlightUnavailable = true
	k.dial = []grpc.DialOption{grpc.WithDefaultServiceConfig(stock)}
	refused := make(chan struct{})
	var once sync.Once
	k.outside = []grpc.UnaryServerInterceptor{func(ctx context.Context, in any, _ *grpc.UnaryServerInfo,
		handler grpc.UnaryHandler,
	) (any, error) {
		out, err := handler(ctx, in)
		if codeOf(err) == codes.Unavailable {
			once.Do(func() { close(refused) })
		}
		return out, err
	}}
	again := make(chan *answer)
	k.during(func() {
		go func() { again <- k.create("k") }()
		<-refused
	}).wantThing("thing-1", false)
	(<-again).wantThing("thing-1", true)
	k.wantRuns(1)
}

// A kept error is final for stock policies too. Seen to fail, with five calls, with marker and pushback taken out of
// replay.
func TestStockRetryPolicyEndsAtAReplay(t *testing.T) {
	k := newKit(t)
	k.options.Class = func(code.Code) retrysafe.Class { return retrysafe.ClassStore }
	k.dial = []grpc.DialOption{grpc.WithDefaultServiceConfig(stock)}
	calls := 0
	k.outside = []grpc.UnaryServerInterceptor{func(ctx context.Context, in any, _ *grpc.UnaryServerInfo,
		handler grpc.UnaryHandler,
	) (any, error) {
		calls++
		return handler(ctx, in)
	}}
	k.work = func(context.Context, *shoppb.CreateRequest) (proto.Message, error) {
		return nil, status.Error(codes.Unavailable, "kept")
	}
	k.create("k").wantCode(codes.Unavailable).wantReplayed(true)
	if calls != 2 {
		t.Errorf("%d calls, want 2", calls)
	}
}

// The interceptor and the server together: the answer to the first call is lost on the way.
func TestLostAnswer(t *testing.T) {
	k := newKit(t)
	lost := false
	k.outside = []grpc.UnaryServerInterceptor{func(ctx context.Context, in any, _ *grpc.UnaryServerInfo,
		handler grpc.UnaryHandler,
	) (any, error) {
		out, err := handler(ctx, in)
		if !lost {
			lost = true
			return nil, status.Error(codes.Unavailable, "the connection broke")
		}
		return out, err
	}}
	k.dial = []grpc.DialOption{grpc.WithUnaryInterceptor(grpcsafe.UnaryClientInterceptor(rpcsafe.ClientOptions{Options: client.Options{Backoff: time.Millisecond}}))}
	k.create("").wantThing("thing-1", true)
	k.wantRuns(1)
}
