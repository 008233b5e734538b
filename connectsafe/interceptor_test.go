package connectsafe_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/retrysafe/retrysafe/connectsafe"
	"github.com/retrysafe/retrysafe/internal/testing/shoppb"
)

// A key is one key whatever protocol and codec it comes with. Seen to fail with the Content-Type counted.
func TestReplayInEveryProtocol(t *testing.T) {
	for first, options := range speakers() {
		t.Run(first, func(t *testing.T) {
			k := newKit(t)
			k.work = func(_ context.Context, r *in) (*out, error) {
				response := connect.NewResponse(&shoppb.Thing{ThingId: "1", Amount: r.Msg.Amount})
				response.Header().Set("Location", "/things/1")
				response.Header().Set("X-Request-Id", "8f41")
				response.Trailer().Set("Cost", "17")
				return response, nil
			}
			a := k.create("k", options...).wantThing("1", false)
			if a.response.Header().Get("X-Request-Id") == "" {
				t.Error("the handler's header is gone")
			}
			for again, options := range speakers() {
				a := k.create("k", options...).wantThing("1", true)
				h := a.response.Header()
				if h.Get("Location") != "/things/1" || h.Get("X-Request-Id") != "" ||
					a.response.Trailer().Get("Cost") != "17" || a.response.Msg.Amount != 17 {
					t.Errorf("%s: header %v, trailer %v", again, h, a.response.Trailer())
				}
			}
			k.wantRuns(1)
		})
	}
}

// Seen to fail without clear in serve (Location twice), and without metadataOf (no Location).
func TestSimpleHandlers(t *testing.T) {
	k := newKit(t)
	k.start()
	labels := map[string]string{}
	for i := range 50 {
		labels[fmt.Sprint(i)] = "x"
	}
	for i := range 5 {
		r := connect.NewRequest(&shoppb.CreateRequest{Labels: labels})
		r.Header().Set("Caller", "alice")
		r.Header().Set("Idempotency-Key", "k")
		response, err := connect.NewClient[shoppb.CreateRequest, shoppb.Labelled](h2c(t), k.url+label,
			connect.WithGRPC()).CallUnary(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if locations := response.Header()["Location"]; len(locations) != 1 || locations[0] != "/things/1" ||
			response.Trailer().Get("Cost") != "17" {
			t.Errorf("call %d: header %v, trailer %v", i, response.Header(), response.Trailer())
		}
		if !proto.Equal(response.Msg, &shoppb.Labelled{ThingId: "labelled", Labels: labels}) {
			t.Errorf("call %d: %v", i, response.Msg)
		}
	}
	k.wantRuns(1)
}

func TestStreams(t *testing.T) {
	for reject, want := range map[bool]connect.Code{false: 0, true: connect.CodeUnimplemented} {
		k := newKit(t)
		k.options.RejectUnsupported = reject
		k.start()
		stream, err := connect.NewClient[shoppb.CreateRequest, shoppb.Thing](h2c(t), k.url+watch).
			CallServerStream(t.Context(), k.request("k"))
		if err != nil {
			t.Fatal(err)
		}
		seen := stream.Receive()
		if err := stream.Err(); seen == reject || err != nil && connect.CodeOf(err) != want {
			t.Errorf("reject %v: seen %v, %v", reject, seen, err)
		}
		stream.Close()
	}
}

func TestScopeFuncs(t *testing.T) {
	if _, err := connectsafe.ScopeCredential()(t.Context(), connect.NewRequest(&shoppb.Thing{})); err == nil {
		t.Error("a caller without a credential")
	}
	r := connect.NewRequest(&shoppb.Thing{})
	r.Header()["Authorization"] = []string{"Bearer a"}
	if name, err := connectsafe.ScopeCredential()(t.Context(), r); err != nil || !strings.HasPrefix(name, "sha256:") {
		t.Errorf("%q, %v", name, err)
	}
}

// Errors of all kinds have the status that connect would send. Seen to fail with statusOf not looking at the context's
// errors, and with NewResult taking the code for UNKNOWN.
func TestNewResult(t *testing.T) {
	for want, err := range map[connect.Code]error{
		connect.CodeUnknown: errors.New("broken"), connect.CodeDeadlineExceeded: context.DeadlineExceeded,
		connect.CodeCanceled: context.Canceled, connect.CodeNotFound: connect.NewError(connect.CodeNotFound, nil), 0: nil,
	} {
		r, failed := connectsafe.NewResult(&shoppb.Thing{ThingId: "found"}, err)
		if failed != nil || r.Code != int(want) || r.Failed != (err != nil) {
			t.Errorf("%v: %+v, %v", err, r, failed)
		}
		k := newKit(t)
		k.work = func(context.Context, *in) (*out, error) { return connect.NewResponse(new(shoppb.Thing)), err }
		if a := k.create("k"); (a.err != nil || want != 0) && connect.CodeOf(a.err) != want {
			t.Errorf("%v: the client got %v", err, a.err)
		}
	}
}

// What an interceptor further out says of each call is not a part of the answer. Seen to fail with takeMetadata
// taken out.
func TestHeadersFromFurtherOutAreNotReplayed(t *testing.T) {
	calls := 0
	k := newKit(t)
	k.outside = []connect.Interceptor{connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
			info, _ := connect.CallInfoForHandlerContext(ctx)
			calls++
			info.ResponseHeader().Set("Served-As", fmt.Sprint(calls))
			info.ResponseTrailer().Set("Counted-As", fmt.Sprint(calls))
			return next(ctx, r)
		}
	})}
	for i := range 3 {
		a := k.create("k").wantThing("thing-1", i > 0)
		want := []string{fmt.Sprint(i + 1)}
		if got := a.response.Header()["Served-As"]; !slices.Equal(got, want) {
			t.Errorf("call %d: header %v, want %v", i+1, got, want)
		}
		if got := a.response.Trailer()["Counted-As"]; !slices.Equal(got, want) {
			t.Errorf("call %d: trailer %v, want %v", i+1, got, want)
		}
	}
}
