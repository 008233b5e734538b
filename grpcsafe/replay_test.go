package grpcsafe_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/shoppb"
	"github.com/retrysafe/retrysafe/rpcsafe"
)

// Seen to fail with Trailer taken out of encode, with base64 taken out of fromMD, and with isPerResponse taken out of
// keeps.
func TestHeaderAndTrailerAreReplayed(t *testing.T) {
	k := newKit(t)
	raw := string([]byte{0, 1, 255})
	k.work = func(ctx context.Context, in *shoppb.CreateRequest) (proto.Message, error) {
		err := errors.Join(
			grpc.SetHeader(ctx, metadata.Pairs("location", "/things/1", "location", "/things/2", "trace-bin", raw)),
			grpc.SendHeader(ctx, metadata.Pairs("x-request-id", fmt.Sprint(k.ran.Load()), "mine", "kept", "other", "dropped")),
			grpc.SetTrailer(ctx, metadata.Pairs("cost", "17", "sum-bin", raw)),
		)
		if grpc.SetHeader(ctx, metadata.Pairs("late", "yes")) == nil {
			t.Error("a header can be set behind its end")
		}
		return &shoppb.Thing{ThingId: "1"}, err
	}
	k.options = rpcsafe.Options{DropHeaders: []string{"other"}, Marker: "was-replayed"}
	first, again := k.create("k"), k.create("k")
	for _, a := range []*answer{first, again} {
		a.wantCode(codes.OK)
		if !slices.Equal(a.header["location"], []string{"/things/1", "/things/2"}) ||
			!slices.Equal(a.header["trace-bin"], []string{raw}) ||
			!slices.Equal(a.trailer["cost"], []string{"17"}) || !slices.Equal(a.trailer["sum-bin"], []string{raw}) ||
			len(a.header["mine"]) != 1 {
			t.Errorf("header %v, trailer %v", a.header, a.trailer)
		}
	}
	if len(first.header["x-request-id"]) != 1 || len(first.header["was-replayed"]) != 0 ||
		len(first.header["other"]) != 1 {
		t.Errorf("the first answer has the header %v", first.header)
	}
	if len(again.header["x-request-id"]) != 0 || len(again.header["was-replayed"]) != 1 ||
		len(again.header["other"]) != 0 {
		t.Errorf("the replay has the header %v", again.header)
	}
}

// Seen to fail with the details left out of what is stored.
func TestErrorsAreReplayedWithTheirDetails(t *testing.T) {
	k := newKit(t)
	k.work = func(ctx context.Context, _ *shoppb.CreateRequest) (proto.Message, error) {
		if err := grpc.SetTrailer(ctx, metadata.Pairs("cost", "0")); err != nil {
			return nil, err
		}
		s, err := status.New(codes.NotFound, "there is no such customer – Ω").WithDetails(
			&errdetails.ResourceInfo{ResourceName: "customers/7"}, &errdetails.LocalizedMessage{Message: "Kunde fehlt"})
		if err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("create: %w", s.Err())
	}
	first, again := k.create("k"), k.create("k")
	if !proto.Equal(first.status.Proto(), again.status.Proto()) || first.status.Code() != codes.NotFound ||
		len(again.status.Details()) != 2 {
		t.Errorf("first %v, again %v", first.status.Proto(), again.status.Proto())
	}
	if !slices.Equal(again.trailer["cost"], []string{"0"}) ||
		!slices.Equal(again.trailer["grpc-retry-pushback-ms"], []string{"-1"}) {
		t.Errorf("trailer %v", again.trailer)
	}
	again.wantReplayed(true)
	k.wantRuns(1)
}

// raw is a message of which only the bytes count.
func raw(b []byte) proto.Message {
	m := new(shoppb.Thing)
	m.ProtoReflect().SetUnknown(b)
	return m
}

// A client that asks for another message sees the bytes that were sent.
func bytesOf(a *answer) string {
	return string(a.thing.(*emptypb.Empty).ProtoReflect().GetUnknown())
}

// Seen to fail, for maps, with exactly taken out of encode.
func TestBytesAreReplayed(t *testing.T) {
	many := map[string]string{}
	for i := range 50 {
		many[fmt.Sprint(i)] = "x"
	}
	field := func(n protowire.Number, s string) []byte {
		return protowire.AppendString(protowire.AppendTag(nil, n, protowire.BytesType), s)
	}
	for name, m := range map[string]proto.Message{
		"a map":                  &shoppb.Labelled{Labels: many},
		"unknown fields":         raw(append(field(900, "new"), field(700, "newer")...)),
		"unknown and known ones": &shoppb.Thing{ThingId: "1", Amount: 3},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKit(t)
			k.work = func(context.Context, *shoppb.CreateRequest) (proto.Message, error) { return m, nil }
			first := k.create("k", into(new(emptypb.Empty))).wantCode(codes.OK)
			for range 5 {
				again := k.create("k", into(new(emptypb.Empty))).wantCode(codes.OK).wantReplayed(true)
				if bytesOf(again) != bytesOf(first) || bytesOf(again) == "" {
					t.Fatalf("%q, then %q", bytesOf(first), bytesOf(again))
				}
			}
		})
	}
}

// What a replay hands to interceptors further out is a message like the first.
func TestReplayHasTheTypeOfTheFirst(t *testing.T) {
	k := newKit(t)
	var types []string
	k.outside = []grpc.UnaryServerInterceptor{func(ctx context.Context, in any, _ *grpc.UnaryServerInfo,
		handler grpc.UnaryHandler,
	) (any, error) {
		out, err := handler(ctx, in)
		types = append(types, fmt.Sprintf("%T", out))
		return out, err
	}}
	k.create("k")
	k.create("k")
	if !slices.Equal(types, []string{"*shoppb.Thing", "*shoppb.Thing"}) {
		t.Error(types)
	}
}

func TestLargeAnswersAreNotKept(t *testing.T) {
	k := newKit(t)
	k.policy.MaxResult = 1000
	k.work = func(context.Context, *shoppb.CreateRequest) (proto.Message, error) {
		return &shoppb.Thing{ThingId: strings.Repeat("x", 2000)}, nil
	}
	k.create("k").wantThing(strings.Repeat("x", 2000), false)
	k.create("k").wantRefusal(codes.FailedPrecondition, "IDEMPOTENT_RESPONSE_NOT_KEPT", "-1").wantReplayed(true)
	k.wantRuns(1)
}

func TestLargeErrorsKeepTheirCode(t *testing.T) {
	k := newKit(t)
	k.policy.MaxResult = 1000
	k.work = func(context.Context, *shoppb.CreateRequest) (proto.Message, error) {
		return nil, status.Error(codes.NotFound, strings.Repeat("x", 2000))
	}
	k.create("k").wantCode(codes.NotFound)
	k.create("k").wantCode(codes.NotFound).wantReplayed(true)
	k.wantRuns(1)
}

// noTypes is a server into which the answer's type is not linked.
type noTypes struct{ protoregistry.Types }

func TestUnknownTypeIsSaid(t *testing.T) {
	k := newKit(t)
	k.options.Types = new(noTypes)
	k.create("k").wantThing("thing-1", false)
	a := k.create("k").wantRefusal(codes.Internal, "IDEMPOTENT_RESPONSE_UNREADABLE", "-1")
	if !strings.Contains(a.status.Message(), "Types") {
		t.Error(a.status.Message())
	}
	k.wantRuns(1)
}

// Seen to fail with ThreeClasses storing RESOURCE_EXHAUSTED, and releasing INTERNAL.
func TestClasses(t *testing.T) {
	released := []codes.Code{
		codes.ResourceExhausted, codes.Unauthenticated,
		codes.PermissionDenied, codes.Aborted,
	}
	for c := codes.Canceled; c <= codes.Unauthenticated; c++ {
		k := newKit(t)
		k.work = func(context.Context, *shoppb.CreateRequest) (proto.Message, error) { return nil, status.Error(c, "no") }
		k.create("k").wantCode(c).wantReplayed(false)
		again := k.create("k").wantCode(c)
		if release := slices.Contains(released, c); release {
			again.wantReplayed(false)
			k.wantRuns(2)
		} else {
			again.wantReplayed(true)
			k.wantRuns(1)
		}
	}
}

// A handler that returns the error of a call which it made passes on the UNAVAILABLE of a connection that broke after the
// effect. With a RetryInfo it says that nothing happened, and a Class of the server's own decides by the code.
//
// Seen to fail with class returning ThreeClasses(c): three effects.
func TestUnavailable(t *testing.T) {
	later, err := status.New(codes.Unavailable, "later").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		answer *status.Status
		class  rpcsafe.ClassFunc
		runs   int64
	}{
		{status.New(codes.Unavailable, "broken"), nil, 1},
		{later, nil, 3},
		{status.New(codes.Unavailable, "broken"), rpcsafe.ThreeClasses, 3},
	} {
		k := newKit(t)
		k.options.Class = c.class
		k.work = func(context.Context, *shoppb.CreateRequest) (proto.Message, error) { return nil, c.answer.Err() }
		for range 3 {
			k.create("k").wantCode(codes.Unavailable)
		}
		k.wantRuns(c.runs)
	}
}

func TestAmbiguous(t *testing.T) {
	for policy, want := range map[retrysafe.AmbiguousPolicy]struct {
		runs   int64
		reason string
	}{
		retrysafe.AmbiguousRelease: {2, ""}, retrysafe.AmbiguousUnknown: {1, "IDEMPOTENT_OUTCOME_UNKNOWN"},
		retrysafe.AmbiguousStore: {1, ""},
	} {
		k := newKit(t)
		k.options.Ambiguous = policy
		k.work = func(context.Context, *shoppb.CreateRequest) (proto.Message, error) { return nil, errors.New("broken") }
		k.create("k").wantCode(codes.Unknown)
		a := k.create("k")
		if got := detail[*errdetails.ErrorInfo](a).GetReason(); got != want.reason {
			t.Errorf("policy %d: reason %q, want %q", policy, got, want.reason)
		}
		k.wantRuns(want.runs)
	}
}

// Work that may be entered again after a crash may be entered again after a failure. Seen to fail with AmbiguousStore
// as the default of every policy.
func TestDefaultOfAmbiguous(t *testing.T) {
	for runs, policy := range map[int64]retrysafe.AbandonedPolicy{1: retrysafe.Refuse(), 2: retrysafe.Rerun()} {
		k := newKit(t)
		k.policy.OnAbandoned = policy
		k.work = func(context.Context, *shoppb.CreateRequest) (proto.Message, error) { return nil, errors.New("broken") }
		k.create("k").wantCode(codes.Unknown)
		k.create("k").wantCode(codes.Unknown)
		k.wantRuns(runs)
	}
}

func TestClassFunc(t *testing.T) {
	k := newKit(t)
	k.options.Class = func(c code.Code) retrysafe.Class {
		if c == code.Code_NOT_FOUND {
			return retrysafe.ClassRelease
		}
		return rpcsafe.ThreeClasses(c)
	}
	k.work = func(context.Context, *shoppb.CreateRequest) (proto.Message, error) {
		return nil, status.Error(codes.NotFound, "not yet")
	}
	k.create("k")
	k.create("k")
	k.wantRuns(2)
}

// Seen to fail with override taken out of end.
func TestReleaseByTheHandler(t *testing.T) {
	k := newKit(t)
	k.work = func(ctx context.Context, _ *shoppb.CreateRequest) (proto.Message, error) {
		return nil, errors.Join(status.Error(codes.Internal, "rolled back"), rpcsafe.Release(ctx))
	}
	k.create("k").wantCode(codes.Internal)
	k.create("k").wantCode(codes.Internal).wantReplayed(false)
	k.wantRuns(2)
	for _, err := range []error{
		rpcsafe.Release(t.Context()), rpcsafe.Unknown(t.Context()),
		rpcsafe.SetReply(t.Context(), nil),
	} {
		if !errors.Is(err, retrysafe.ErrNoAttempt) {
			t.Error(err)
		}
	}
}

// Seen to fail with the recover in work releasing the key.
func TestPanics(t *testing.T) {
	recovered := func(ctx context.Context, in any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (out any,
		err error,
	) {
		defer func() {
			if p := recover(); p != nil {
				err = status.Error(codes.Internal, fmt.Sprint(p))
			}
		}()
		return handler(ctx, in)
	}
	for policy, runs := range map[retrysafe.AmbiguousPolicy]int64{
		retrysafe.AmbiguousStore: 1, retrysafe.AmbiguousUnknown: 1, retrysafe.AmbiguousRelease: 2,
	} {
		k := newKit(t)
		k.options.Ambiguous = policy
		k.outside = []grpc.UnaryServerInterceptor{recovered}
		k.work = func(context.Context, *shoppb.CreateRequest) (proto.Message, error) { panic("a bug") }
		if a := k.create("k").wantCode(codes.Internal); a.status.Message() != "a bug" {
			t.Errorf("policy %d: the panic did not go on: %v", policy, a.err)
		}
		k.create("k").wantCode(codes.Internal)
		k.wantRuns(runs)
	}
}

// Seen to fail with the handler run in the call's context.
func TestCancelledCallsKeepTheirRecord(t *testing.T) {
	k := newKit(t)
	k.policy.OnInFlight = retrysafe.Wait(1 << 40)
	began, goOn := make(chan struct{}), make(chan struct{})
	k.work = func(ctx context.Context, _ *shoppb.CreateRequest) (proto.Message, error) {
		close(began)
		<-goOn
		if _, limited := ctx.Deadline(); ctx.Err() != nil || !limited {
			t.Errorf("the work's context ended with the call: %v", ctx.Err())
		}
		return &shoppb.Thing{ThingId: "1"}, grpc.SetHeader(ctx, metadata.Pairs("location", "/things/1"))
	}
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan *answer)
	go func() { first <- k.create("k", in(ctx)) }()
	<-began
	cancel()
	(<-first).wantCode(codes.Canceled)
	close(goOn)
	k.create("k").wantThing("1", true)
	k.wantRuns(1)
}

// Seen to fail, with fifty runs, with a key of its own for each call.
func TestFiftyAtOnce(t *testing.T) {
	k := newKit(t)
	k.policy.OnInFlight = retrysafe.Wait(1 << 40)
	k.start()
	var all sync.WaitGroup
	start := make(chan struct{})
	for range 50 {
		all.Go(func() {
			conn := connect(t, k.conn.Target()[len("passthrough:///"):])
			<-start
			if a := send(t, conn, "k"); a.err != nil || a.thing.(*shoppb.Thing).ThingId != "thing-1" {
				t.Errorf("%v, %v", a.thing, a.err)
			}
		})
	}
	close(start)
	all.Wait()
	k.wantRuns(1)
}

// An error's text may have come from the caller. Seen to fail with valid taken out of encode.
func TestErrorsThatAreNotUTF8KeepTheirCode(t *testing.T) {
	k := newKit(t)
	k.work = func(context.Context, *shoppb.CreateRequest) (proto.Message, error) {
		return nil, status.Error(codes.NotFound, "no customer \xff")
	}
	first, again := k.create("k").wantCode(codes.NotFound), k.create("k").wantCode(codes.NotFound)
	again.wantReplayed(true)
	if first.status.Message() != again.status.Message() {
		t.Errorf("first %q, again %q", first.status.Message(), again.status.Message())
	}
	k.wantRuns(1)
}

// Something further out may have sent the header already. The call has run, and is answered all the same. Seen to fail
// with the error of SetHeader returned.
func TestHeaderThatWasSentBefore(t *testing.T) {
	k := newKit(t)
	k.outside = []grpc.UnaryServerInterceptor{func(ctx context.Context, in any, _ *grpc.UnaryServerInfo,
		handler grpc.UnaryHandler,
	) (any, error) {
		if err := grpc.SendHeader(ctx, metadata.Pairs("early", "yes")); err != nil {
			t.Error(err)
		}
		return handler(ctx, in)
	}}
	k.work = func(ctx context.Context, _ *shoppb.CreateRequest) (proto.Message, error) {
		return &shoppb.Thing{ThingId: "1"}, errors.Join(grpc.SetHeader(ctx, metadata.Pairs("location", "/things/1")),
			grpc.SetTrailer(ctx, metadata.Pairs("cost", "17")))
	}
	k.create("k").wantThing("1", false)
	again := k.create("k").wantThing("1", false) // where it is looked for, there was no place left
	if !slices.Equal(again.trailer["idempotent-replayed"], []string{"true"}) ||
		!slices.Equal(again.trailer["cost"], []string{"17"}) {
		t.Errorf("the replay has the trailer %v", again.trailer)
	}
	k.wantRuns(1)
}
