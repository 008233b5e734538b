package rpcsafe

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/retrysafe/retrysafe/client"
	"github.com/retrysafe/retrysafe/internal/testing/shoppb"
)

var errReply = errors.New("the reply")

// fails returns a failed reply.
func fails(c code.Code, changes ...func(*Reply)) Reply {
	r := Reply{Status: &status.Status{Code: int32(c), Message: "no"}, Header: Metadata{}, Trailer: Metadata{}}
	for _, f := range changes {
		f(&r)
	}
	return r
}

func because(reason string) func(*Reply) {
	return func(r *Reply) {
		packed, err := anypb.New(&errdetails.ErrorInfo{Reason: reason, Domain: defaultDomain})
		if err != nil {
			panic(err)
		}
		r.Status.Details = append(r.Status.Details, packed)
	}
}

func marked(r *Reply) { r.Header[defaultMarker] = []string{"true"} }
func begun(r *Reply)  { r.Begun = true }
func pushed(ms string) func(*Reply) {
	return func(r *Reply) { r.Trailer[pushback] = []string{ms} }
}

// played is how a call went.
type played struct {
	err     error
	keys    []string
	reports []client.Event
	took    time.Duration
}

// play makes a call that gets these replies, the last of them again and again, in a bubble in which time passes at
// once.
func play(t *testing.T, o ClientOptions, replies ...Reply) (p played) {
	synctest.Test(t, func(t *testing.T) {
		o.Observer = client.ObserverFunc(func(_ context.Context, e client.Event) {
			if e.Kind == client.AttemptEnded {
				p.reports = append(p.reports, e)
			}
		})
		began := time.Now()
		p.err = NewClient(o).Call(t.Context(), Outgoing{Method: "/a/B", Request: &shoppb.CreateRequest{}},
			func(_ context.Context, _ proto.Message, key string) (Reply, error) {
				p.keys = append(p.keys, key)
				reply := replies[min(len(p.keys), len(replies))-1]
				if reply.Status == nil {
					return reply, nil
				}
				return reply, errReply
			})
		p.took = time.Since(began)
	})
	return p
}

// How a call ends.
const (
	ok      = "ok"
	failed  = "failed" // with the reply's error
	unknown = "unknown"
	notKept = "not kept"
)

// Every row of the table, by what the last reply but the success behind it makes the client do.
// Seen to fail, row by row, with each row taken out of signals.
func TestSignals(t *testing.T) {
	lost := fails(code.Code_UNAVAILABLE)
	for _, c := range []struct {
		signal  string
		end     string
		sent    int
		replies []Reply
	}{
		{"outcome-resumes", ok, 2, []Reply{fails(code.Code_INTERNAL, because(ReasonOutcomeUnknown), pushed("1000"))}},
		{"outcome-resumes", unknown, 4, many(4, fails(code.Code_INTERNAL, because(ReasonOutcomeUnknown), pushed("1000")))},
		{"outcome-unknown", unknown, 1, []Reply{fails(code.Code_INTERNAL, because(ReasonOutcomeUnknown), pushed("-1"))}},
		{"outcome-unknown", unknown, 1, []Reply{fails(code.Code_INTERNAL, because(ReasonOutcomeUnknown), marked)}},
		{"not-kept", notKept, 1, []Reply{fails(code.Code_FAILED_PRECONDITION, because(ReasonNotKept), marked)}},
		{"not-kept", notKept, 2, []Reply{lost, fails(code.Code_FAILED_PRECONDITION, because(ReasonNotKept), marked)}},
		{"key-reused", failed, 1, []Reply{fails(code.Code_FAILED_PRECONDITION, because(ReasonKeyReused))}},
		{"key-reused", unknown, 2, []Reply{lost, fails(code.Code_FAILED_PRECONDITION, because(ReasonKeyReused))}},
		{"key-expired", unknown, 1, []Reply{fails(code.Code_FAILED_PRECONDITION, because(ReasonKeyExpired))}},
		{"key-expired", unknown, 1, []Reply{fails(code.Code_INTERNAL, because(ReasonUnreadable), marked)}},
		{"in-flight", ok, 2, []Reply{fails(code.Code_ABORTED, because(ReasonInFlight))}},
		{"in-flight", ok, 2, []Reply{fails(code.Code_UNAVAILABLE, because(ReasonInFlight))}},
		{"in-flight", ok, 11, many(10, fails(code.Code_ABORTED, because(ReasonInFlight)))},
		{"try-later", ok, 2, []Reply{fails(code.Code_UNAVAILABLE, because(ReasonStoreUnavailable))}},
		{"try-later", failed, 4, many(4, fails(code.Code_UNAVAILABLE, because(ReasonStoreUnavailable)))},
		{"try-later", failed, 4, many(4, fails(code.Code_RESOURCE_EXHAUSTED, because(ReasonKeyQuota)))},
		{"try-later", unknown, 4, append([]Reply{lost},
			many(3, fails(code.Code_UNAVAILABLE, because(ReasonStoreUnavailable)))...)},
		{"refused", failed, 1, []Reply{fails(code.Code_INVALID_ARGUMENT, because(ReasonKeyMissing))}},
		{"refused", failed, 1, []Reply{fails(code.Code_INVALID_ARGUMENT, because(ReasonKeyMalformed))}},
		{"refused", failed, 1, []Reply{fails(code.Code_UNAUTHENTICATED, because(ReasonScopeUnresolved))}},
		{"refused", failed, 1, []Reply{fails(code.Code_UNIMPLEMENTED, because(ReasonNotSupported))}},
		{"refused", failed, 1, []Reply{fails(code.Code_INTERNAL, because(ReasonNotProtobuf))}},
		{"refused", unknown, 2, []Reply{lost, fails(code.Code_INVALID_ARGUMENT, because(ReasonKeyMissing))}},
		{"replayed-failure", unknown, 1, []Reply{fails(code.Code_INTERNAL, marked)}},
		{"replayed-failure", unknown, 1, []Reply{fails(code.Code_UNKNOWN, marked)}},
		{"replayed-failure", unknown, 1, []Reply{fails(code.Code_DATA_LOSS, marked)}},
		{"replayed-failure", unknown, 1, []Reply{fails(code.Code_DEADLINE_EXCEEDED, marked)}},
		{"replayed-failure", unknown, 1, []Reply{fails(code.Code_CANCELLED, marked)}},
		{"replayed", failed, 1, []Reply{fails(code.Code_NOT_FOUND, marked)}},
		{"replayed", failed, 2, []Reply{lost, fails(code.Code_UNAVAILABLE, marked)}},
		{"replayed", failed, 1, []Reply{fails(code.Code_RESOURCE_EXHAUSTED, marked, begun)}},
		{"cut-off", ok, 2, []Reply{fails(code.Code_RESOURCE_EXHAUSTED, begun)}},
		{"cut-off", unknown, 4, many(4, fails(code.Code_RESOURCE_EXHAUSTED, begun))},
		{"exhausted", failed, 4, many(4, fails(code.Code_RESOURCE_EXHAUSTED))},
		{"unavailable", ok, 2, []Reply{lost}},
		{"unavailable", unknown, 4, many(4, lost)},
		{"no-answer", unknown, 4, many(4, fails(code.Code_DEADLINE_EXCEEDED))},
		{"no-answer", unknown, 4, many(4, fails(code.Code_CANCELLED))},
		{"server-error", unknown, 4, many(4, fails(code.Code_UNKNOWN))},
		{"server-error", unknown, 4, many(4, fails(code.Code_INTERNAL))},
		{"server-error", unknown, 4, many(4, fails(code.Code_DATA_LOSS))},
		{"told-to-stop", unknown, 1, []Reply{fails(code.Code_UNAVAILABLE, pushed("-1"))}},
		{"told-to-stop", unknown, 1, []Reply{fails(code.Code_INTERNAL, pushed("soon"))}},
		{"told-to-stop", failed, 1, []Reply{fails(code.Code_RESOURCE_EXHAUSTED, pushed("-1"))}},
		{"not-done", failed, 1, []Reply{fails(code.Code_UNAUTHENTICATED)}},
		{"not-done", failed, 1, []Reply{fails(code.Code_PERMISSION_DENIED)}},
		{"not-done", failed, 1, []Reply{fails(code.Code_ABORTED)}},
		{"not-done", failed, 1, []Reply{fails(code.Code_UNIMPLEMENTED)}},
		{"not-done", unknown, 2, []Reply{lost, fails(code.Code_PERMISSION_DENIED)}},
		{"answer", failed, 1, []Reply{fails(code.Code_INVALID_ARGUMENT)}},
		{"answer", failed, 1, []Reply{fails(code.Code_NOT_FOUND)}},
		{"answer", failed, 1, []Reply{fails(code.Code_ALREADY_EXISTS)}},
		{"answer", failed, 1, []Reply{fails(code.Code_FAILED_PRECONDITION)}},
		{"answer", failed, 1, []Reply{fails(code.Code_OUT_OF_RANGE)}},
		{"answer", failed, 1, []Reply{fails(code.Code_NOT_FOUND, because("SOLD_OUT"))}},
		{"answer", unknown, 4, append([]Reply{lost}, many(3, fails(code.Code_INVALID_ARGUMENT))...)},
		{"answer", unknown, 2, []Reply{lost, fails(code.Code_INVALID_ARGUMENT, pushed("-1"))}},
		{"replayed", failed, 3, []Reply{lost, fails(code.Code_NOT_FOUND), fails(code.Code_NOT_FOUND, marked)}},
	} {
		t.Run(c.signal, func(t *testing.T) {
			p := play(t, ClientOptions{Options: client.Options{Budget: client.RetryBudget{Tokens: -1}}},
				append(c.replies, Reply{})...)
			got := map[bool]string{true: unknown, false: failed}[errors.Is(p.err, client.ErrOutcomeUnknown)]
			switch {
			case p.err == nil:
				got = ok
			case errors.Is(p.err, client.ErrNotReplayable):
				got = notKept
			}
			if got != c.end || len(p.keys) != c.sent || p.err != nil && !errors.Is(p.err, errReply) {
				t.Errorf("%s after %d attempts, want %s after %d: %v", got, len(p.keys), c.end, c.sent, p.err)
			}
			if r := p.reports[len(c.replies)-1]; r.Signal != c.signal || r.Retried != (c.sent > len(c.replies)) {
				t.Errorf("signal %q, retried %v, want %q", r.Signal, r.Retried, c.signal)
			}
			for _, key := range p.keys {
				if key != p.keys[0] || key == "" {
					t.Errorf("keys %q", p.keys)
				}
			}
		})
	}
}

func many(n int, r Reply) (all []Reply) {
	for range n {
		all = append(all, r)
	}
	return all
}

// Seen to fail with the report made before the wait is known.
func TestAttemptsAreReported(t *testing.T) {
	p := play(t, ClientOptions{}, fails(code.Code_UNAVAILABLE, pushed("1500")), Reply{})
	if len(p.reports) != 2 || p.took != 1500*time.Millisecond {
		t.Fatalf("%d reports in %v", len(p.reports), p.took)
	}
	first, second := p.reports[0], p.reports[1]
	if first.Method != "/a/B" || first.Attempt != 1 || first.Code != "UNAVAILABLE" || first.Err != errReply ||
		!first.Retried || first.Wait != p.took {
		t.Errorf("first %+v", first)
	}
	if second.Attempt != 2 || second.Code != "OK" || second.Err != nil || second.Signal != "success" ||
		second.Retried || second.Key != first.Key || strings.Contains(first.Key, p.keys[0]) {
		t.Errorf("second %+v", second)
	}
}

// The page has a row for each signal, in the order of the table, with its codes and reasons.
// Seen to fail with a row taken out of the page, and with a code taken out of one.
func TestSignalsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/grpc.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	for _, name := range []string{signalSuccess, signalStop} {
		if !strings.Contains(page, "| `"+name+"` |") {
			t.Errorf("docs/grpc.md has no row for %s", name)
		}
	}
	at := 0
	for _, s := range signals() {
		i := strings.Index(page[at:], "| `"+s.name+"` |")
		if i < 0 {
			t.Fatalf("docs/grpc.md has no row for %s, or not in its place", s.name)
		}
		at += i
		row, _, _ := strings.Cut(page[at:], "\n")
		words := s.reasons
		for _, c := range s.codes {
			words = append(words, c.String())
		}
		for _, w := range words {
			if !strings.Contains(row, "`"+w+"`") {
				t.Errorf("the row for %s does not name %s", s.name, w)
			}
		}
		if again := strings.Contains(row, "| again"); again != s.again {
			t.Errorf("the row for %s: again is %v, want %v", s.name, again, s.again)
		}
	}
}

// Who waits for another attempt does not strain a failing server. Seen to fail with the budget asked in flight, too.
func TestWaitingForAnAttemptTakesNoBudget(t *testing.T) {
	busy := fails(code.Code_ABORTED, because(ReasonInFlight))
	if p := play(t, ClientOptions{Options: client.Options{Budget: client.RetryBudget{Tokens: 1}}}, busy, busy, busy,
		Reply{}); p.err != nil {
		t.Error(p.err)
	}
	if p := play(t, ClientOptions{Options: client.Options{Budget: client.RetryBudget{Tokens: 1}}},
		fails(code.Code_INTERNAL), Reply{}); !errors.Is(p.err, client.ErrOutcomeUnknown) {
		t.Error(p.err)
	}
}

// What a client waits for another attempt is bounded by time, and what fails meanwhile by attempts.
// Seen to fail with attempts in flight counted among those of Attempts, and without MaxInFlight.
func TestInFlightCountsByTime(t *testing.T) {
	busy := fails(code.Code_ABORTED, because(ReasonInFlight), pushed("1000"))
	p := play(t, ClientOptions{}, busy)
	if !errors.Is(p.err, client.ErrOutcomeUnknown) || p.took != 2*time.Minute {
		t.Errorf("%v after %v, want two minutes", p.err, p.took)
	}
	o := ClientOptions{Options: client.Options{Budget: client.RetryBudget{Tokens: -1}}}
	p = play(t, o, append(many(40, busy), fails(code.Code_UNAVAILABLE))...)
	if !errors.Is(p.err, client.ErrOutcomeUnknown) || len(p.keys) != 44 {
		t.Errorf("%v after %d attempts, want 40 in flight and 4 that failed", p.err, len(p.keys))
	}
}

// Seen to fail with RequireKey taken out of setKey.
func TestRequireKey(t *testing.T) {
	c := NewClient(ClientOptions{Options: client.Options{RequireKey: true}})
	send := func(context.Context, proto.Message, string) (Reply, error) { return Reply{}, nil }
	call := Outgoing{Method: "/a/B", Request: &shoppb.CreateRequest{}}
	if err := c.Call(t.Context(), call, send); !errors.Is(err, client.ErrKeyRequired) {
		t.Errorf("without a key: %v", err)
	}
	if err := c.Call(client.WithKey(t.Context(), "k1"), call, send); err != nil {
		t.Errorf("with a key: %v", err)
	}
}
