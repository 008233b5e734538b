package rpctest

import (
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/shoppb"
	"github.com/retrysafe/retrysafe/rpcsafe"
)

// outcomeRules say what becomes of the key when the handler has answered.
var outcomeRules = []rule{
	{"each code has its class", classes},
	{"UNAVAILABLE", unavailable},
	{"Class decides", func(k *kit) {
		k.Options.Class = func(c code.Code) retrysafe.Class {
			if c == code.Code_NOT_FOUND {
				return retrysafe.ClassRelease
			}
			return rpcsafe.ThreeClasses(c)
		}
		k.Handle = always(fails(code.Code_NOT_FOUND))
		k.create("k").wantCode(code.Code_NOT_FOUND)
		k.create("k").wantCode(code.Code_NOT_FOUND)
		k.wantRuns(2)
	}},
	{"Ambiguous decides", ambiguous},
	{"the policy decides what is ambiguous", defaultOfAmbiguous},
	{"the handler releases its key", release},
	{"a panic", panics},
	{"a canceled call keeps its record", canceled},
}

// Seen to fail with ThreeClasses storing code.Code_RESOURCE_EXHAUSTED, and releasing code.Code_INTERNAL.
func classes(k *kit) {
	released := []code.Code{
		code.Code_RESOURCE_EXHAUSTED, code.Code_UNAUTHENTICATED, code.Code_PERMISSION_DENIED, code.Code_ABORTED,
	}
	for c := code.Code_CANCELLED; c <= code.Code_UNAUTHENTICATED; c++ {
		one, freed := k.another(), slices.Contains(released, c)
		one.Handle = always(fails(c))
		one.create("k").wantCode(c).wantReplayed(false)
		one.create("k").wantCode(c).wantReplayed(!freed)
		one.wantRuns(map[bool]int64{true: 2, false: 1}[freed])
	}
}

// A handler that returns the error of a call which it made passes on the UNAVAILABLE of a connection that broke after the
// effect. With a RetryInfo it says that nothing happened, unless a pushback asks for no retry. A Class of the server's
// own decides by the code.
//
// Seen to fail with class returning ThreeClasses(c), and with stop taken out of it: three effects.
func unavailable(k *kit) {
	broken := fails(code.Code_UNAVAILABLE)
	waits := fails(code.Code_UNAVAILABLE, &errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)})
	stops := waits
	stops.Trailer = rpcsafe.Metadata{pushback: {"-1"}}
	for _, c := range []struct {
		reply rpcsafe.Reply
		class rpcsafe.ClassFunc
		runs  int64
	}{
		{broken, nil, 1},
		{waits, nil, 3},
		{stops, nil, 1},
		{broken, rpcsafe.ThreeClasses, 3},
	} {
		one := k.another()
		one.Options.Class, one.Handle = c.class, always(c.reply)
		for range 3 {
			one.create("k").wantCode(code.Code_UNAVAILABLE)
		}
		one.wantRuns(c.runs)
	}
}

// Seen to fail with Options.Ambiguous not looked at by ambiguous.
func ambiguous(k *kit) {
	for policy, want := range map[retrysafe.AmbiguousPolicy]struct {
		runs   int64
		reason string
	}{
		retrysafe.AmbiguousRelease: {2, ""}, retrysafe.AmbiguousUnknown: {1, rpcsafe.ReasonOutcomeUnknown},
		retrysafe.AmbiguousStore: {1, ""},
	} {
		one := k.another()
		one.Options.Ambiguous, one.Handle = policy, always(fails(code.Code_UNKNOWN))
		one.create("k").wantCode(code.Code_UNKNOWN)
		if got := detail[errdetails.ErrorInfo](one.create("k")).GetReason(); got != want.reason {
			k.Errorf("policy %d: reason %q, want %q", policy, got, want.reason)
		}
		one.wantRuns(want.runs)
	}
}

// Work that may be entered again after a crash may be entered again after a failure. Seen to fail with AmbiguousStore
// as the default of every policy.
func defaultOfAmbiguous(k *kit) {
	for runs, policy := range map[int64]retrysafe.AbandonedPolicy{1: retrysafe.Refuse(), 2: retrysafe.Rerun()} {
		one := k.another()
		one.policy.OnAbandoned, one.Handle = policy, always(fails(code.Code_UNKNOWN))
		one.create("k").wantCode(code.Code_UNKNOWN)
		one.create("k").wantCode(code.Code_UNKNOWN)
		one.wantRuns(runs)
	}
}

// Seen to fail with override taken out of end.
func release(k *kit) {
	k.Handle = func(ctx context.Context, _ Call) rpcsafe.Reply {
		if err := rpcsafe.Release(ctx); err != nil {
			k.Error(err)
		}
		return fails(code.Code_INTERNAL)
	}
	k.create("k").wantCode(code.Code_INTERNAL)
	k.create("k").wantCode(code.Code_INTERNAL).wantReplayed(false)
	k.wantRuns(2)
	for _, err := range []error{
		rpcsafe.Release(k.Context()), rpcsafe.Unknown(k.Context()), rpcsafe.SetReply(k.Context(), nil),
	} {
		if !errors.Is(err, retrysafe.ErrNoAttempt) {
			k.Error(err)
		}
	}
}

// Seen to fail with the recover in work releasing the key.
func panics(k *kit) {
	for policy, runs := range map[retrysafe.AmbiguousPolicy]int64{
		retrysafe.AmbiguousStore: 1, retrysafe.AmbiguousUnknown: 1, retrysafe.AmbiguousRelease: 2,
	} {
		one := k.another()
		one.Options.Ambiguous = policy
		one.Handle = func(context.Context, Call) rpcsafe.Reply { panic("a bug") }
		if a := one.create("k").wantCode(code.Code_INTERNAL); a.Status.Message != "a bug" {
			k.Errorf("policy %d: the panic did not go on: %v", policy, a.err)
		}
		one.create("k").wantCode(code.Code_INTERNAL)
		one.wantRuns(runs)
	}
}

// Seen to fail with the handler run in the call's context.
func canceled(k *kit) {
	k.policy.OnInFlight = retrysafe.Wait(time.Minute)
	began, goOn := make(chan struct{}), make(chan struct{})
	k.Handle = func(ctx context.Context, _ Call) rpcsafe.Reply {
		close(began)
		<-goOn
		if _, limited := ctx.Deadline(); ctx.Err() != nil || !limited {
			k.Errorf("the work's context ended with the call: %v", ctx.Err())
		}
		return rpcsafe.Reply{Message: &shoppb.Thing{ThingId: "1"}}
	}
	k.start()
	ctx, cancel := context.WithCancel(k.Context())
	first := make(chan *answer)
	go func() { first <- k.createIn(ctx, "k") }()
	<-began
	cancel()
	(<-first).wantCode(code.Code_CANCELLED)
	close(goOn)
	k.create("k").wantThing("1", true)
	k.wantRuns(1)
}
