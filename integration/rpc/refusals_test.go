package rpc

import (
	"context"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/shoppb"
)

// refusal is a row of the table in docs/grpc.md.
type refusal struct {
	name     string
	play     func(s *stand) answer
	code     codes.Code
	reason   string
	pushback string // in milliseconds; "-1": do not retry
	executed string
	detail   string // type of the further detail that explains the refusal
	replayed bool   // every retry gets the same answer
}

const oldKey = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f" // a UUIDv7 of 2022

func refusals() []refusal {
	quota := func(context.Context, string, string) time.Duration { return 1500 * time.Microsecond }
	required := []string{service + "/*"}
	return []refusal{
		{"missing", func(s *stand) answer {
			s.grpc.Required, s.connect.Required = required, required
			return s.send("")
		}, codes.InvalidArgument, "IDEMPOTENCY_KEY_MISSING", "-1", "no", "BadRequest", false},
		{
			"malformed", func(s *stand) answer { return s.send(`"open`) }, codes.InvalidArgument,
			"IDEMPOTENCY_KEY_MALFORMED", "-1", "no", "BadRequest", false,
		},
		{
			"two keys", func(s *stand) answer { return s.send("", entry("idempotency-key", "a", "b")) },
			codes.InvalidArgument, "IDEMPOTENCY_KEY_MALFORMED", "-1", "no", "BadRequest", false,
		},
		{"field and metadata", func(s *stand) answer {
			s.grpc.KeyField, s.connect.KeyField = "request_id", "request_id"
			return s.send("k", requestID("f81d4fae-7dec-41d0-a765-00a0c91e6bf6"))
		}, codes.InvalidArgument, "IDEMPOTENCY_KEY_MALFORMED", "-1", "no", "BadRequest", false},
		{
			"caller not known", func(s *stand) answer { return s.send("k", entry("authorization")) },
			codes.Unauthenticated, "IDEMPOTENCY_SCOPE_UNRESOLVED", "-1", "no", "", false,
		},
		{"another request", func(s *stand) answer {
			s.send("k")
			return s.send("k", amount(18))
		}, codes.FailedPrecondition, "IDEMPOTENCY_KEY_REUSED", "-1", "no", "PreconditionFailure", false},
		{"another request in flight", func(s *stand) answer {
			return s.during(func() answer { return s.send("k", amount(18)) })
		}, codes.FailedPrecondition, "IDEMPOTENCY_KEY_REUSED", "-1", "no", "PreconditionFailure", false},
		{"in flight", func(s *stand) answer {
			return s.during(func() answer {
				s.clock.Add(int64(2 * time.Second))
				return s.send("k")
			})
		}, codes.Aborted, "IDEMPOTENT_REQUEST_IN_FLIGHT", "2000", "unknown", "RetryInfo", false},
		{"in flight, unavailable", func(s *stand) answer {
			s.grpc.InFlightUnavailable, s.connect.InFlightUnavailable = true, true
			return s.during(func() answer { return s.send("k") })
		}, codes.Unavailable, "IDEMPOTENT_REQUEST_IN_FLIGHT", "100", "unknown", "RetryInfo", false},
		{"expired", func(s *stand) answer {
			s.policy.Retention = retrysafe.Retention{Replay: time.Hour, Key: 2 * time.Hour}
			s.send("k")
			s.clock.Add(int64(90 * time.Minute))
			return s.send("k")
		}, codes.FailedPrecondition, "IDEMPOTENCY_KEY_EXPIRED", "-1", "yes", "PreconditionFailure", false},
		{"too old", func(s *stand) answer {
			s.grpc.MaxKeyAge, s.connect.MaxKeyAge = time.Hour, time.Hour
			return s.send(oldKey)
		}, codes.FailedPrecondition, "IDEMPOTENCY_KEY_EXPIRED", "-1", "unknown", "PreconditionFailure", false},
		{"too large", func(s *stand) answer {
			s.policy.MaxResult = 1000
			s.work = func(context.Context) said { return said{thing: &shoppb.Thing{ThingId: strings.Repeat("x", 2000)}} }
			s.send("k")
			return s.send("k")
		}, codes.FailedPrecondition, "IDEMPOTENT_RESPONSE_NOT_KEPT", "-1", "yes", "PreconditionFailure", true},
		{"unreadable", func(s *stand) answer {
			s.newer.Store(true)
			s.send("k")
			return s.send("k")
		}, codes.Internal, "IDEMPOTENT_RESPONSE_UNREADABLE", "-1", "yes", "", true},
		{"outcome unknown", func(s *stand) answer {
			s.grpc.Ambiguous, s.connect.Ambiguous = retrysafe.AmbiguousUnknown, retrysafe.AmbiguousUnknown
			s.work = func(context.Context) said { return said{status: &spb.Status{Code: int32(codes.Internal)}} }
			s.send("k")
			return s.send("k")
		}, codes.Internal, "IDEMPOTENT_OUTCOME_UNKNOWN", "-1", "unknown", "", true},
		{"resolved as failed", func(s *stand) answer {
			s.grpc.Ambiguous, s.connect.Ambiguous = retrysafe.AmbiguousUnknown, retrysafe.AmbiguousUnknown
			s.work = func(context.Context) said { return said{status: &spb.Status{Code: int32(codes.Internal)}} }
			s.send("k")
			s.resolveAll(retrysafe.ResolveFail)
			s.send("k")
			return s.send("k")
		}, codes.FailedPrecondition, "IDEMPOTENCY_KEY_CLOSED", "-1", "no", "PreconditionFailure", true},
		{"store down", func(s *stand) answer {
			s.down.Store(true)
			return s.send("k")
		}, codes.Unavailable, "IDEMPOTENCY_STORE_UNAVAILABLE", "1000", "no", "RetryInfo", false},
		{"quota", func(s *stand) answer {
			s.grpc.QuotaFunc, s.connect.QuotaFunc = quota, quota
			return s.send("k")
		}, codes.ResourceExhausted, "IDEMPOTENCY_KEY_QUOTA", "2", "no", "RetryInfo", false},
		{"not supported", func(s *stand) answer {
			s.grpc.Methods, s.connect.Methods = []string{"x/Y"}, []string{"x/Y"}
			s.grpc.RejectUnsupported, s.connect.RejectUnsupported = true, true
			return s.send("k")
		}, codes.Unimplemented, "IDEMPOTENCY_NOT_SUPPORTED", "-1", "no", "", false},
	}
}

// Seen to fail, row by row, with the row of renderings changed; "too old" with isTooOld taken out of work.
func TestRefusals(t *testing.T) {
	for _, row := range refusals() {
		t.Run(row.name, func(t *testing.T) {
			behindBoth(t, func(s *stand) {
				s.grpc.Domain, s.connect.Domain = "shop.example", "shop.example"
				s.grpc.PolicyURL, s.connect.PolicyURL = "https://shop.example/rules", "https://shop.example/rules"
				a := row.play(s)
				s.wantRefusal(row, a)
				ran := row.reason == "IDEMPOTENCY_KEY_REUSED" || row.reason == "IDEMPOTENCY_KEY_CLOSED" || row.executed != "no"
				if runs := s.ran.Load(); !ran && runs != 0 || runs > 1 {
					s.Errorf("the handler ran %d times", runs)
				}
			})
		})
	}
}

// resolveAll resolves the only key of the store.
func (s *stand) resolveAll(action retrysafe.ResolveAction) {
	s.Helper()
	known, err := s.store.(retrysafe.Inspector).List(s.Context(), retrysafe.ListParams{})
	if err != nil || len(known) != 1 {
		s.Fatalf("List = %d keys, %v; want 1", len(known), err)
	}
	_, err = s.guard().Resolve(s.Context(), known[0].Key.Digest(),
		retrysafe.Resolution{Action: action, Reason: "looked it up"})
	if err != nil {
		s.Fatal(err)
	}
}

func (s *stand) wantRefusal(want refusal, a answer) {
	s.Helper()
	wantReason(s.T, a, want.code, want.reason)
	found := map[string]bool{}
	for _, d := range status.Convert(a.err).Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			found["ErrorInfo"] = d.Domain == "shop.example" && d.Metadata["executed"] == want.executed &&
				(d.Metadata["retryable"] == "true") == (want.pushback != "-1")
		case *errdetails.RetryInfo:
			found["RetryInfo"] = strconv.FormatFloat(math.Ceil(d.RetryDelay.AsDuration().Seconds()*1000), 'f', 0,
				64) == want.pushback
		case *errdetails.BadRequest:
			found["BadRequest"] = len(d.FieldViolations) == 1 && d.FieldViolations[0].Reason == want.reason
		case *errdetails.PreconditionFailure:
			found["PreconditionFailure"] = len(d.Violations) == 1 && d.Violations[0].Type == want.reason
		case *errdetails.Help:
			found["Help"] = len(d.Links) == 1 && strings.HasPrefix(d.Links[0].Url, "https://shop.example/rules#")
		}
	}
	wanted := map[string]bool{"ErrorInfo": true, "Help": true}
	if want.detail != "" {
		wanted[want.detail] = true
	}
	for _, d := range []string{"ErrorInfo", "RetryInfo", "BadRequest", "PreconditionFailure", "Help"} {
		if found[d] != wanted[d] {
			s.Errorf("%s is %v, want %v: %v", d, found[d], wanted[d], status.Convert(a.err).Proto())
		}
	}
	if got := a.trailer["grpc-retry-pushback-ms"]; len(got) != 1 || got[0] != want.pushback {
		s.Errorf("pushback %q, want %s", got, want.pushback)
	}
	if a.replayed() != want.replayed {
		s.Errorf("replayed %v, want %v", a.replayed(), want.replayed)
	}
}
