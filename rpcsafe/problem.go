package rpcsafe

import (
	"fmt"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/retrysafe/retrysafe"
)

// problem is a situation in which a call is refused. It holds nothing that the call has sent.
type problem struct {
	code       code.Code
	reason     string // of the ErrorInfo
	slug       string // on the policy page, which HTTP has too
	message    string
	executed   string // "no", "yes" or "unknown"
	retryable  bool   // the same call may be made again, with the same key
	newKey     bool   // this key cannot be used for this call
	replayed   bool   // every retry gets the same
	retryAfter time.Duration

	field     string // what is wrong in the request
	detail    string // why
	key       string // the key's digest
	carrier   string // of the key
	firstSeen time.Time
}

// about adds which key it is about, and what carries it.
func (p problem) about(k retrysafe.Key, carrier string) problem {
	p.key, p.carrier = k.String(), carrier
	return p
}

// seen adds when the key was first claimed.
func (p problem) seen(known retrysafe.Record) problem {
	if known.Age > 0 {
		p.firstSeen = time.Now().Add(-known.Age)
	}
	return p
}

func (s *Server) keyMissing() problem {
	p := problemOf(ReasonKeyMissing)
	p.field, p.detail = s.o.KeyHeader, "a key is required"
	if s.o.KeyField != "" {
		p.field = s.o.KeyField
	}
	return p
}

func (s *Server) keyMalformed(carrier, reason string) *problem {
	p := problemOf(ReasonKeyMalformed)
	p.field, p.detail = carrier, fmt.Sprintf("%s: at most %d bytes", reason, s.header.Max)
	return &p
}

// refusal is the answer to a call that is refused. It has no header: that would commit the call, and forbid retries (gRFC A6).
func (s *Server) refusal(p problem) Reply {
	answer := &status.Status{Code: int32(p.code), Message: p.message}
	for _, d := range p.details(s.o) {
		packed, err := anypb.New(d)
		if err != nil {
			panic(err) // it is made of ASCII
		}
		answer.Details = append(answer.Details, packed)
	}
	reply := Reply{Status: answer, Trailer: Metadata{pushback: {pushbackOf(p.retryAfter)}}}
	if p.replayed {
		reply.Header = Metadata{s.o.Marker: {"true"}}
	}
	return reply
}

func (p problem) details(o Options) []proto.Message {
	all := []proto.Message{&errdetails.ErrorInfo{Reason: p.reason, Domain: o.Domain, Metadata: p.metadata()}}
	if p.retryAfter > 0 {
		all = append(all, &errdetails.RetryInfo{RetryDelay: durationpb.New(p.retryAfter)})
	}
	if p.field != "" {
		all = append(all, &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
			{Field: p.field, Description: p.detail, Reason: p.reason},
		}})
	}
	if p.code == code.Code_FAILED_PRECONDITION {
		all = append(all, &errdetails.PreconditionFailure{Violations: []*errdetails.PreconditionFailure_Violation{
			{Type: p.reason, Subject: p.carrier, Description: p.message},
		}})
	}
	if o.PolicyURL != "" {
		all = append(all, &errdetails.Help{Links: []*errdetails.Help_Link{{Description: "The rules of this server", Url: o.PolicyURL + "#" + p.slug}}})
	}
	return all
}

func (p problem) metadata() map[string]string {
	m := map[string]string{
		"retryable": strconv.FormatBool(p.retryable), "new_key_required": strconv.FormatBool(p.newKey), "executed": p.executed,
	}
	if p.key != "" {
		m["key"] = p.key
	}
	if !p.firstSeen.IsZero() {
		m["first_seen"] = p.firstSeen.UTC().Format(time.RFC3339)
	}
	return m
}
