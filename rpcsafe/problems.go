package rpcsafe

import (
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
)

// Reasons of refusals: what an ErrorInfo says, in the Domain of the options.
const (
	ReasonKeyMissing       = "IDEMPOTENCY_KEY_MISSING"
	ReasonKeyMalformed     = "IDEMPOTENCY_KEY_MALFORMED"
	ReasonScopeUnresolved  = "IDEMPOTENCY_SCOPE_UNRESOLVED"
	ReasonKeyReused        = "IDEMPOTENCY_KEY_REUSED"
	ReasonInFlight         = "IDEMPOTENT_REQUEST_IN_FLIGHT"
	ReasonKeyExpired       = "IDEMPOTENCY_KEY_EXPIRED"
	ReasonKeyClosed        = "IDEMPOTENCY_KEY_CLOSED"
	ReasonOutcomeUnknown   = "IDEMPOTENT_OUTCOME_UNKNOWN"
	ReasonStoreUnavailable = "IDEMPOTENCY_STORE_UNAVAILABLE"
	ReasonKeyQuota         = "IDEMPOTENCY_KEY_QUOTA"
	ReasonNotSupported     = "IDEMPOTENCY_NOT_SUPPORTED"
	ReasonNotKept          = "IDEMPOTENT_RESPONSE_NOT_KEPT"
	ReasonUnreadable       = "IDEMPOTENT_RESPONSE_UNREADABLE"
	ReasonNotProtobuf      = "IDEMPOTENCY_NEEDS_PROTOBUF"
)

// problemOf returns the problem with this reason.
func problemOf(reason string) problem {
	for _, p := range problems() {
		if p.reason == reason {
			return p
		}
	}
	panic("rpc: no problem " + reason)
}

// refused is for functions that return a problem only where there is one.
func refused(reason string) *problem {
	p := problemOf(reason)
	return &p
}

// problems are all situations in which a call is refused.
func problems() []problem {
	return []problem{
		{
			code: code.Code_INVALID_ARGUMENT, reason: ReasonKeyMissing, slug: "key-missing", executed: "no", newKey: true,
			message: "this operation needs an idempotency key; send a new one with each new operation",
		},
		{
			code: code.Code_INVALID_ARGUMENT, reason: ReasonKeyMalformed, slug: "key-malformed", executed: "no", newKey: true,
			message: "the idempotency key cannot be read",
		},
		{
			code: code.Code_UNAUTHENTICATED, reason: ReasonScopeUnresolved, slug: "scope-unresolved", executed: "no",
			message: "the caller could not be determined, and a key belongs to one caller: authenticate, then retry with the same key",
		},
		{
			code: code.Code_FAILED_PRECONDITION, reason: ReasonKeyReused, slug: "key-reused", executed: "no", newKey: true,
			message: "this idempotency key was first used for a different request; use a new key for a new operation",
		},
		{
			code: code.Code_ABORTED, reason: ReasonInFlight, slug: "request-in-flight", executed: "unknown", retryable: true,
			message: "a call with this idempotency key is outstanding; retry unchanged after the indicated delay",
		},
		{
			code: code.Code_FAILED_PRECONDITION, reason: ReasonKeyExpired, slug: "key-expired", executed: "yes", newKey: true,
			message: "the answer under this idempotency key is no longer kept; find out what happened before using a new key",
		},
		{
			code: code.Code_FAILED_PRECONDITION, reason: ReasonKeyClosed, slug: "key-closed", executed: "no", newKey: true, replayed: true,
			message: "the outcome under this idempotency key was unknown, and it has been found out that the operation did not happen or was undone; it will not run under this key: use a new one to perform it",
		},
		{
			code: code.Code_INTERNAL, reason: ReasonOutcomeUnknown, slug: "outcome-unknown", executed: "unknown", replayed: true,
			message: "the operation started, but whether it completed is unknown, and a retry does not run it again: look for its effect, or ask support; use a new idempotency key only if it has not happened",
		},
		{
			code: code.Code_UNAVAILABLE, reason: ReasonStoreUnavailable, slug: "store-unavailable", executed: "no", retryable: true,
			message: "the operation cannot be protected at the moment; nothing was run: retry with the same idempotency key", retryAfter: time.Second,
		},
		{
			code: code.Code_RESOURCE_EXHAUSTED, reason: ReasonKeyQuota, slug: "key-quota", executed: "no", retryable: true,
			message: "this caller has reached its quota of idempotency keys; retry after the indicated delay",
		},
		{
			code: code.Code_UNIMPLEMENTED, reason: ReasonNotSupported, slug: "not-supported", executed: "no",
			message: "this method does not take an idempotency key; nothing was run",
		},
		{
			code: code.Code_FAILED_PRECONDITION, reason: ReasonNotKept, slug: "key-expired", executed: "yes", newKey: true, replayed: true,
			message: "the operation was carried out, and its response was too large to keep; read its result instead of retrying",
		},
		{
			code: code.Code_INTERNAL, reason: ReasonUnreadable, slug: "key-expired", executed: "yes", replayed: true,
			message: "the operation was carried out, and this server cannot read the response that is kept: is its message type linked in, or among the Types?",
		},
		{
			code: code.Code_INTERNAL, reason: ReasonNotProtobuf, slug: "not-supported", executed: "no",
			message: "the request is no protobuf message, so that it cannot be told from another one; nothing was run",
		},
	}
}
