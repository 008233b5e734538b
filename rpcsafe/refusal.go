package rpcsafe

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/caller"
)

// Reasons of refusals: the reason in the ErrorInfo, whose domain is Options.Domain.
const (
	ReasonKeyMissing       = "IDEMPOTENCY_KEY_MISSING"        // the method requires a key, and the call has none
	ReasonKeyMalformed     = "IDEMPOTENCY_KEY_MALFORMED"      // the key does not have the required form
	ReasonScopeUnresolved  = "IDEMPOTENCY_SCOPE_UNRESOLVED"   // the scope function returned an error
	ReasonScopeUnavailable = "IDEMPOTENCY_SCOPE_UNAVAILABLE"  // the scope function returned ErrScopeUnavailable
	ReasonKeyReused        = "IDEMPOTENCY_KEY_REUSED"         // the key was first used for a different request
	ReasonInFlight         = "IDEMPOTENT_REQUEST_IN_FLIGHT"   // another attempt works on the key
	ReasonKeyExpired       = "IDEMPOTENCY_KEY_EXPIRED"        // the answer, or the record, is no longer kept
	ReasonKeyClosed        = "IDEMPOTENCY_KEY_CLOSED"         // an operator resolved the key as not executed
	ReasonOutcomeUnknown   = "IDEMPOTENT_OUTCOME_UNKNOWN"     // whether the operation completed is unknown
	ReasonStoreUnavailable = "IDEMPOTENCY_STORE_UNAVAILABLE"  // the store failed; nothing was run
	ReasonKeyQuota         = "IDEMPOTENCY_KEY_QUOTA"          // Options.QuotaFunc refused the call
	ReasonNotSupported     = "IDEMPOTENCY_NOT_SUPPORTED"      // the method takes no key: see Options.RejectUnsupported
	ReasonNotKept          = "IDEMPOTENT_RESPONSE_NOT_KEPT"   // it succeeded, and its answer was too large to store
	ReasonUnreadable       = "IDEMPOTENT_RESPONSE_UNREADABLE" // it succeeded, and this server cannot decode its answer
	ReasonNotProtobuf      = "IDEMPOTENCY_NEEDS_PROTOBUF"     // the request is not a protobuf message
)

// rendering is how a situation appears over RPC: code, reason, and the anchor on the policy page, which HTTP has too.
type rendering struct {
	code           code.Code
	reason, anchor string
}

// renderings has the situations in which a call is refused. Their texts, and what the client may do, are
// the root's. SituationFailed is that of work which was not a handler's: an answer of a handler is replayed.
var renderings = map[retrysafe.Situation]rendering{
	retrysafe.SituationKeyMissing:       {code.Code_INVALID_ARGUMENT, ReasonKeyMissing, "key-missing"},
	retrysafe.SituationKeyMalformed:     {code.Code_INVALID_ARGUMENT, ReasonKeyMalformed, "key-malformed"},
	retrysafe.SituationScopeUnresolved:  {code.Code_UNAUTHENTICATED, ReasonScopeUnresolved, "scope-unresolved"},
	retrysafe.SituationMismatch:         {code.Code_FAILED_PRECONDITION, ReasonKeyReused, "key-reused"},
	retrysafe.SituationInFlight:         {code.Code_ABORTED, ReasonInFlight, "request-in-flight"},
	retrysafe.SituationCanceled:         {code.Code_ABORTED, ReasonInFlight, "request-in-flight"},
	retrysafe.SituationNotReplayable:    {code.Code_FAILED_PRECONDITION, ReasonKeyExpired, "key-expired"},
	retrysafe.SituationKeyTooOld:        {code.Code_FAILED_PRECONDITION, ReasonKeyExpired, "key-expired"},
	retrysafe.SituationClosed:           {code.Code_FAILED_PRECONDITION, ReasonKeyClosed, "key-closed"},
	retrysafe.SituationOutcomeUnknown:   {code.Code_INTERNAL, ReasonOutcomeUnknown, "outcome-unknown"},
	retrysafe.SituationFailed:           {code.Code_INTERNAL, ReasonOutcomeUnknown, "outcome-unknown"},
	retrysafe.SituationStoreUnavailable: {code.Code_UNAVAILABLE, ReasonStoreUnavailable, "store-unavailable"},
	retrysafe.SituationShuttingDown:     {code.Code_UNAVAILABLE, ReasonStoreUnavailable, "store-unavailable"},
	retrysafe.SituationQuotaExceeded:    {code.Code_RESOURCE_EXHAUSTED, ReasonKeyQuota, "key-quota"},
	retrysafe.SituationNotSupported:     {code.Code_UNIMPLEMENTED, ReasonNotSupported, "not-supported"},
	retrysafe.SituationRejected:         {code.Code_INTERNAL, ReasonNotProtobuf, "not-supported"},
}

// refusal says why a call gets no answer of the handler. It holds nothing that the client has sent.
type refusal struct {
	retrysafe.Advice
	rendering
	field, fault string // which field of the request is wrong, and why
	key, carrier string // the key's digest, and the name of the metadata entry or field that carries the key
}

func refuse(a retrysafe.Advice) *refusal {
	return &refusal{Advice: a, rendering: renderings[a.Situation]}
}

func (s *Server) keyMissing() *refusal {
	r := refuse(retrysafe.SituationKeyMissing.Advice())
	r.field, r.fault = cmp.Or(s.o.KeyField, s.o.KeyHeader), "a key is required"
	return r
}

func (s *Server) keyMalformed(carrier, fault string) *refusal {
	r := refuse(retrysafe.SituationKeyMalformed.Advice())
	r.field, r.fault = carrier, fmt.Sprintf("%s: at most %d bytes", fault, s.header.Max)
	return r
}

// scopeUnresolved refuses a call whose caller is not known.
func scopeUnresolved(err error) *refusal {
	r := refuse(retrysafe.SituationScopeUnresolved.Advice())
	switch {
	case errors.Is(err, ErrScopeUnavailable):
		r.code, r.reason, r.Retryable, r.RetryAfter = code.Code_UNAVAILABLE, ReasonScopeUnavailable, true, time.Second
		r.Detail = "The caller cannot be looked up at the moment, and this call ran nothing. An earlier call with this key " +
			"may have run: retry with the same key, not with a new one."
	case errors.Is(err, caller.ErrPerRequest):
		r.Detail = "The authorization metadata differs on each call and cannot identify the caller of a retry. " +
			"Configure a scope that stays the same."
	case errors.Is(err, caller.ErrExpires):
		r.Detail = "The authorization metadata holds a token that expires. A retry with the token that replaces it would " +
			"count as another caller's, and would run again. Configure a scope that stays the same."
	}
	return r
}

// answerNotKept refuses a retry whose answer was too large to store. Every retry gets the same.
func answerNotKept() *refusal {
	r := refuse(retrysafe.SituationNotReplayable.Advice())
	r.reason, r.Final = ReasonNotKept, true
	return r
}

// unreadable refuses a retry whose answer this server cannot decode, although another may.
func unreadable() *refusal {
	r := answerNotKept()
	r.reason, r.code, r.NewKeyRequired = ReasonUnreadable, code.Code_INTERNAL, false
	r.Detail = "The operation was executed, but this server cannot read its stored answer: " +
		"the message type must be linked into it."
	return r
}

func notProtobuf() *refusal {
	r := refuse(retrysafe.SituationRejected.Advice())
	r.Detail = "The request is not a protobuf message and cannot be fingerprinted. Nothing was run."
	return r
}

// pushback is the trailer by which a server controls gRPC's own retries (gRFC A6): a wait in milliseconds, or -1 for
// no retry.
const pushback = "grpc-retry-pushback-ms"

func pushbackOf(after time.Duration) string {
	if after <= 0 {
		return "-1"
	}
	return strconv.FormatInt(int64(math.Ceil(float64(after)/float64(time.Millisecond))), 10)
}

// reply returns the answer to a refused call. It has no header: a header would commit the call and prevent gRPC's own
// retries (gRFC A6).
func (s *Server) reply(r *refusal) Reply {
	answer := &status.Status{Code: int32(r.code), Message: r.Detail}
	for _, d := range r.details(s.o) {
		packed, err := anypb.New(d)
		if err != nil {
			panic(err) // all texts are ASCII
		}
		answer.Details = append(answer.Details, packed)
	}
	reply := Reply{Status: answer, Trailer: Metadata{pushback: {pushbackOf(r.RetryAfter)}}}
	if r.Final {
		reply.Header = Metadata{s.o.Marker: {"true"}}
	}
	return reply
}

func (r *refusal) details(o Options) []proto.Message {
	all := []proto.Message{&errdetails.ErrorInfo{Reason: r.reason, Domain: o.Domain, Metadata: r.metadata()}}
	if r.RetryAfter > 0 {
		all = append(all, &errdetails.RetryInfo{RetryDelay: durationpb.New(r.RetryAfter)})
	}
	if r.field != "" {
		all = append(all, &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
			{Field: r.field, Description: r.fault, Reason: r.reason},
		}})
	}
	if r.code == code.Code_FAILED_PRECONDITION {
		all = append(all, &errdetails.PreconditionFailure{Violations: []*errdetails.PreconditionFailure_Violation{
			{Type: r.reason, Subject: r.carrier, Description: r.Detail},
		}})
	}
	if o.PolicyURL != "" {
		link := &errdetails.Help_Link{Description: "The rules of this server", Url: o.PolicyURL + "#" + r.anchor}
		all = append(all, &errdetails.Help{Links: []*errdetails.Help_Link{link}})
	}
	return all
}

func (r *refusal) metadata() map[string]string {
	m := map[string]string{
		"retryable": strconv.FormatBool(r.Retryable), "new_key_required": strconv.FormatBool(r.NewKeyRequired),
		"executed": r.Executed.String(),
	}
	if r.key != "" {
		m["key"] = r.key
	}
	if age := r.Record.Age; age > 0 {
		m["first_seen"] = time.Now().Add(-age).UTC().Format(time.RFC3339)
	}
	return m
}
