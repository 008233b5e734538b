package rpctest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/shoppb"
	"github.com/retrysafe/retrysafe/rpcsafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

const (
	keyHeader = "idempotency-key"
	marker    = "idempotent-replayed"
	domain    = "github.com/retrysafe/retrysafe"
	pushback  = "grpc-retry-pushback-ms"
)

// kit is a guarded server and a client. What a rule sets before the first call counts.
type kit struct {
	*testing.T
	Server
	serve  Serve
	store  *faultyStore
	clock  atomic.Int64 // the store's, in nanoseconds
	policy retrysafe.Policy
	ran    atomic.Int64
	once   sync.Once
	client Client
}

// faultyStore fails on demand.
type faultyStore struct {
	*memstore.Store
	failsClaim, failsComplete, failsInspect atomic.Bool
}

var errDown = errors.New("store is down")

func (s *faultyStore) Claim(ctx context.Context, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
	if s.failsClaim.Load() {
		return retrysafe.Claim{}, errDown
	}
	return s.Store.Claim(ctx, p)
}

func (s *faultyStore) Inspect(ctx context.Context, d retrysafe.Digest) ([]retrysafe.Record, error) {
	if s.failsInspect.Load() {
		return nil, errDown
	}
	return s.Store.Inspect(ctx, d)
}

func (s *faultyStore) Complete(ctx context.Context, l retrysafe.Lease, r retrysafe.Result,
	keep retrysafe.Retention,
) error {
	if s.failsComplete.Load() {
		return errDown
	}
	return s.Store.Complete(ctx, l, r, keep)
}

func newKit(t *testing.T, serve Serve) *kit {
	k := &kit{T: t, serve: serve}
	clock := func() time.Duration { return time.Duration(k.clock.Load()) }
	k.store = &faultyStore{Store: memstore.New(memstore.Options{Clock: clock})}
	k.Handle = func(_ context.Context, c Call) rpcsafe.Reply {
		return rpcsafe.Reply{Message: &shoppb.Thing{ThingId: fmt.Sprintf("thing-%d", k.ran.Load()), Amount: c.Request.Amount}}
	}
	return k
}

// another returns a kit of the same adapter.
func (k *kit) another() *kit { return newKit(k.T, k.serve) }

// start serves, once.
func (k *kit) start() {
	k.once.Do(func() {
		k.Guard = retrysafe.New(k.store, retrysafe.Options{Policy: k.policy, SweepEvery: -1})
		s := k.Server
		s.Handle = func(ctx context.Context, c Call) rpcsafe.Reply {
			k.ran.Add(1)
			return k.Handle(ctx, c)
		}
		k.client = k.serve(k.T, s)
	})
}

// answer is how a call ended.
type answer struct {
	*testing.T
	rpcsafe.Reply
	err error
}

type change func(*Call)

func amount(n int64) change     { return func(c *Call) { c.Request.Amount = n } }
func requestID(s string) change { return func(c *Call) { c.Request.RequestId = s } }
func method(name string) change { return func(c *Call) { c.Method = name } }
func entry(name string, v ...string) change {
	return func(c *Call) { c.Metadata[name] = v }
}

// create calls Create under a key.
func (k *kit) create(key string, changes ...change) *answer {
	k.Helper()
	return k.createIn(k.Context(), key, changes...)
}

func (k *kit) createIn(ctx context.Context, key string, changes ...change) *answer {
	k.Helper()
	k.start()
	c := Call{Method: "Create", Metadata: rpcsafe.Metadata{"caller": {"alice"}}, Request: &shoppb.CreateRequest{Amount: 17}}
	if key != "" {
		c.Metadata[keyHeader] = []string{key}
	}
	for _, f := range changes {
		f(&c)
	}
	reply, err := k.client(ctx, c)
	return &answer{k.T, reply, err}
}

func (a *answer) wantThing(id string, replayed bool) *answer {
	a.Helper()
	if thing, ok := a.Message.(*shoppb.Thing); a.err != nil || !ok || thing.ThingId != id {
		a.Fatalf("got %v, %v; want %s", a.Message, a.err, id)
	}
	return a.wantReplayed(replayed)
}

func (a *answer) wantReplayed(want bool) *answer {
	a.Helper()
	if got := slices.Equal(a.Header[marker], []string{"true"}); got != want {
		a.Errorf("replayed %v, want %v (header %v)", got, want, a.Header)
	}
	return a
}

func (a *answer) wantCode(want code.Code) *answer {
	a.Helper()
	if got := code.Code(a.Status.GetCode()); got != want || (a.err == nil) != (want == code.Code_OK) {
		a.Fatalf("got %v, %v, want %v", got, a.err, want)
	}
	return a
}

// wantRefusal checks code, reason and pushback.
func (a *answer) wantRefusal(c code.Code, reason, wait string) *answer {
	a.Helper()
	a.wantCode(c)
	if info := detail[errdetails.ErrorInfo](a); info.GetReason() != reason || info.GetDomain() != domain {
		a.Errorf("ErrorInfo %v, want reason %s", info, reason)
	}
	if got := a.Trailer[pushback]; !slices.Equal(got, []string{wait}) {
		a.Errorf("pushback %v, want %s", got, wait)
	}
	return a
}

// wantInfo checks an entry of the refusal's ErrorInfo.
func (a *answer) wantInfo(name, want string) *answer {
	a.Helper()
	if got := detail[errdetails.ErrorInfo](a).GetMetadata()[name]; got != want {
		a.Errorf("%s is %q, want %q", name, got, want)
	}
	return a
}

// wantRetryInfo checks the wait that a refusal asks for.
func (a *answer) wantRetryInfo(want time.Duration) {
	a.Helper()
	if got := detail[errdetails.RetryInfo](a).GetRetryDelay().AsDuration(); got != want {
		a.Errorf("RetryInfo says %v, want %v", got, want)
	}
}

// detail returns the detail of a type; nil if there is none.
func detail[T any, P interface {
	*T
	proto.Message
}](a *answer) P {
	for _, packed := range a.Status.GetDetails() {
		if found := P(new(T)); packed.UnmarshalTo(found) == nil {
			return found
		}
	}
	return nil
}

// fails returns a failed reply.
func fails(c code.Code, details ...proto.Message) rpcsafe.Reply {
	s := &status.Status{Code: int32(c), Message: "no"}
	for _, d := range details {
		packed, err := anypb.New(d)
		if err != nil {
			panic(err)
		}
		s.Details = append(s.Details, packed)
	}
	return rpcsafe.Reply{Status: s}
}

func always(r rpcsafe.Reply) func(context.Context, Call) rpcsafe.Reply {
	return func(context.Context, Call) rpcsafe.Reply { return r }
}

func (k *kit) wantRuns(want int64) {
	k.Helper()
	if got := k.ran.Load(); got != want {
		k.Errorf("the handler ran %d times, want %d", got, want)
	}
}

func (k *kit) pass(d time.Duration) { k.clock.Add(int64(d)) }

// during calls f while a call with key k is in flight, and returns that call's answer.
func (k *kit) during(f func()) *answer {
	k.Helper()
	began, goOn, answered := make(chan struct{}), make(chan struct{}), make(chan *answer)
	inner := k.Handle
	k.Handle = func(ctx context.Context, c Call) rpcsafe.Reply {
		if len(c.Metadata["held"]) > 0 {
			close(began)
			<-goOn
		}
		return inner(ctx, c)
	}
	k.start()
	go func() { answered <- k.create("k", entry("held", "yes")) }()
	<-began
	f()
	close(goOn)
	return <-answered
}

// abandon leaves key k as a process would that died while working.
func (k *kit) abandon() {
	k.Helper()
	k.Handle = func(ctx context.Context, _ Call) rpcsafe.Reply {
		if err := rpcsafe.Unknown(ctx); err != nil {
			k.Error(err)
		}
		return fails(code.Code_INTERNAL)
	}
	k.create("k").wantCode(code.Code_INTERNAL)
}
