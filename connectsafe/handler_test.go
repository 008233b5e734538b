package connectsafe_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/connectsafe"
	"github.com/retrysafe/retrysafe/internal/testing/shoppb"
	"github.com/retrysafe/retrysafe/rpcsafe"
)

// A store's InTx does what complete does, in a transaction. Seen to fail without CaptureFunc in newRun.
func TestAnswerIsSavedByTheHandler(t *testing.T) {
	k := newKit(t)
	complete := func(ctx context.Context) error {
		a, _ := retrysafe.AttemptFrom(ctx)
		return a.Control().CompleteIn(k.store, func(l retrysafe.Lease, r retrysafe.Result, keep retrysafe.Retention) error {
			return k.store.Complete(ctx, l, r, keep)
		})
	}
	k.work = func(ctx context.Context, _ *in) (*out, error) {
		if complete(ctx) == nil {
			t.Error("completed without an answer")
		}
		err := errors.Join(rpcsafe.SetReply(ctx, &shoppb.Thing{ThingId: "saved"}), complete(ctx))
		return nil, errors.Join(err, errors.New("a bug after the commit"))
	}
	k.create("k").wantThing("saved", false)
	k.create("k").wantThing("saved", true)
	k.wantRuns(1)
}

func TestReconcile(t *testing.T) {
	for name, found := range map[string]error{
		"it had worked": nil,
		"it had failed": connect.NewError(connect.CodeNotFound, errors.New("no")),
	} {
		t.Run(name, func(t *testing.T) {
			k := newKit(t)
			result, err := connectsafe.NewResult(&shoppb.Thing{ThingId: "found"}, found)
			if err != nil {
				t.Fatal(err)
			}
			k.policy.OnAbandoned = retrysafe.Reconcile(func(context.Context, *retrysafe.Attempt,
				retrysafe.Record,
			) (*retrysafe.Result, error) {
				return &result, nil
			})
			k.work = func(ctx context.Context, _ *in) (*out, error) {
				return nil, errors.Join(rpcsafe.Unknown(ctx), errors.New("the connection broke"))
			}
			k.create("k")
			a := k.create("k")
			if found == nil {
				a.wantThing("found", true)
			} else if e := a.failure(); e.Code() != connect.CodeNotFound || e.Meta().Get("Idempotent-Replayed") != "true" {
				t.Errorf("%v, %v", e, e.Meta())
			}
			k.wantRuns(1)
		})
	}
}

func TestFingerprintsAndClasses(t *testing.T) {
	for name, c := range map[string]struct {
		method  rpcsafe.FingerprintMethod
		differs bool // a request with another amount
	}{
		"message": {rpcsafe.FingerprintMessage(), true}, "except": {rpcsafe.FingerprintExcept("amount"), false},
		"fields": {rpcsafe.FingerprintFields("note"), false}, "none": {rpcsafe.FingerprintNone(), false},
		"func": {rpcsafe.FingerprintFunc("amount", func(_ string, m proto.Message) string {
			return m.(*shoppb.CreateRequest).String()
		}), true},
	} {
		k := newKit(t)
		k.scope = connectsafe.ScopeNone()
		k.options = rpcsafe.Options{Fingerprint: c.method, Class: rpcsafe.ThreeClasses}
		k.create("k").wantThing("thing-1", false)
		other := k.request("k")
		other.Msg.Amount = 1
		if a := k.send(create, other); (a.err != nil) != c.differs {
			t.Errorf("%s: %v", name, a.err)
		}
	}
}

func TestAmbiguousAndQuota(t *testing.T) {
	for policy, runs := range map[retrysafe.AmbiguousPolicy]int64{
		retrysafe.AmbiguousStore: 1, retrysafe.AmbiguousUnknown: 1, retrysafe.AmbiguousRelease: 2,
	} {
		k := newKit(t)
		k.options.Ambiguous = policy
		k.work = func(context.Context, *in) (*out, error) { return nil, context.DeadlineExceeded }
		if e := k.create("k").failure(); e.Code() != connect.CodeDeadlineExceeded {
			t.Error(e)
		}
		k.create("k")
		k.wantRuns(runs)
	}
	k := newKit(t)
	k.options.QuotaFunc = func(context.Context, string, string) time.Duration { return time.Second }
	k.create("k").wantRefusal(connect.CodeResourceExhausted, "IDEMPOTENCY_KEY_QUOTA", "1000")
}

// Only ScopeNone says that all callers share one scope. Seen to fail with an empty name taken for a scope.
func TestEmptyScope(t *testing.T) {
	k := newKit(t)
	k.scope = func(context.Context, connect.AnyRequest) (string, error) { return "", nil }
	if a := k.create("k"); connect.CodeOf(a.err) != connect.CodeUnauthenticated {
		t.Errorf("got %v", a.err)
	}
	k.wantRuns(0)
}
