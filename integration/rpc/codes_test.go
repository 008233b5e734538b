package rpc

import (
	"context"
	"slices"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/shoppb"
	"github.com/retrysafe/retrysafe/rpcsafe"
)

// The classes, as docs/grpc.md has them.
func classes() map[codes.Code]retrysafe.Class {
	return map[codes.Code]retrysafe.Class{
		codes.OK: retrysafe.ClassStore, codes.Canceled: retrysafe.ClassAmbiguous, codes.Unknown: retrysafe.ClassAmbiguous,
		codes.InvalidArgument: retrysafe.ClassStore, codes.DeadlineExceeded: retrysafe.ClassAmbiguous,
		codes.NotFound:      retrysafe.ClassStore,
		codes.AlreadyExists: retrysafe.ClassStore, codes.PermissionDenied: retrysafe.ClassRelease,
		codes.ResourceExhausted:  retrysafe.ClassRelease,
		codes.FailedPrecondition: retrysafe.ClassStore, codes.Aborted: retrysafe.ClassRelease,
		codes.OutOfRange:    retrysafe.ClassStore,
		codes.Unimplemented: retrysafe.ClassStore, codes.Internal: retrysafe.ClassAmbiguous,
		codes.Unavailable: retrysafe.ClassRelease,
		codes.DataLoss:    retrysafe.ClassAmbiguous, codes.Unauthenticated: retrysafe.ClassRelease,
	}
}

// Every code, under every policy for ambiguous answers. Seen to fail with ThreeClasses storing ABORTED, with it
// releasing INTERNAL, and with Apply left out of end.
func TestWhatIsKept(t *testing.T) {
	if len(classes()) != 17 {
		t.Fatalf("%d codes", len(classes()))
	}
	policies := map[string]retrysafe.AmbiguousPolicy{
		"store": retrysafe.AmbiguousStore, "release": retrysafe.AmbiguousRelease, "unknown": retrysafe.AmbiguousUnknown,
	}
	for name, policy := range policies {
		t.Run(name, func(t *testing.T) {
			behindBoth(t, func(s *stand) {
				s.grpc.Ambiguous, s.connect.Ambiguous = policy, policy
				for c, class := range classes() {
					s.ran.Store(0)
					s.work = func(context.Context) said {
						if c == codes.OK {
							return said{thing: &shoppb.Thing{ThingId: "1"}}
						}
						return said{status: &spb.Status{Code: int32(c), Message: "no"}}
					}
					if got := rpcsafe.ThreeClasses(code.Code(c)); got != class {
						s.Errorf("%v is of class %d, want %d", c, got, class)
					}
					if c == codes.Unavailable { // without a RetryInfo
						class = retrysafe.ClassAmbiguous
					}
					first, again := s.send(c.String()), s.send(c.String())
					s.wantKept(c, class, policy, first, again)
				}
			})
		})
	}
}

func (s *stand) wantKept(c codes.Code, class retrysafe.Class, policy retrysafe.AmbiguousPolicy, first, again answer) {
	s.Helper()
	if status.Code(first.err) != c || first.replayed() {
		s.Errorf("%v: first %v, replayed %v", c, first.err, first.replayed())
	}
	runs, code, replayed := int64(1), c, true
	switch {
	case class == retrysafe.ClassRelease, class == retrysafe.ClassAmbiguous && policy == retrysafe.AmbiguousRelease:
		runs, replayed = 2, false
	case class == retrysafe.ClassAmbiguous && policy == retrysafe.AmbiguousUnknown:
		code = codes.Internal
		wantReason(s.T, again, code, "IDEMPOTENT_OUTCOME_UNKNOWN")
	}
	if got := s.ran.Load(); got != runs || status.Code(again.err) != code || again.replayed() != replayed {
		s.Errorf("%v: %d runs, again %v, replayed %v; want %d, %v, %v", c, got, again.err, again.replayed(), runs,
			code, replayed)
	}
}

// Bytes, and one name in both lists. Seen to fail with Trailer taken out of encode.
func TestStatusAndMetadataAreReplayed(t *testing.T) {
	missing, err := anypb.New(&errdetails.ResourceInfo{ResourceName: "customers/7"})
	if err != nil {
		t.Fatal(err)
	}
	raw := "\x00\x01\xff"
	header, trailer := metadata.Pairs("cost", "17", "cost", "18", "sum-bin", raw),
		metadata.Pairs("cost", "19", "sum-bin", raw+raw)
	for name, handler := range map[string]said{
		"success": {thing: &shoppb.Thing{ThingId: "1"}, header: header, trailer: trailer},
		"failure": {
			status: &spb.Status{Code: int32(codes.NotFound), Message: "no such customer – Ω", Details: []*anypb.Any{missing}},
			header: header, trailer: trailer,
		},
	} {
		t.Run(name, func(t *testing.T) {
			behindBoth(t, func(s *stand) {
				s.work = func(context.Context) said { return handler }
				for i := range 3 {
					a := s.send("k")
					if got := status.Convert(a.err).Proto(); a.replayed() != (i > 0) || handler.status != nil &&
						!proto.Equal(got, handler.status) {
						s.Errorf("call %d: replayed %v, %v", i, a.replayed(), got)
					}
					for _, name := range []string{"cost", "sum-bin"} {
						if !slices.Equal(a.header[name], header[name]) || !slices.Equal(a.trailer[name], trailer[name]) {
							s.Errorf("call %d: header %q, trailer %q", i, a.header, a.trailer)
						}
					}
				}
				s.wantRuns(1)
			})
		})
	}
}
