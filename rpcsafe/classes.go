package rpcsafe

import (
	"google.golang.org/genproto/googleapis/rpc/code"

	"github.com/retrysafe/retrysafe"
)

// ClassFunc returns what an answer's code means for the key of its call. The codes of gRPC and Connect are the same
// numbers.
type ClassFunc func(code.Code) retrysafe.Class

// ThreeClasses is the default ClassFunc. Codes that assert that nothing happened (UNAVAILABLE with a RetryInfo,
// RESOURCE_EXHAUSTED, UNAUTHENTICATED, PERMISSION_DENIED, ABORTED) release the key; UNKNOWN, INTERNAL, DATA_LOSS, DEADLINE_EXCEEDED and
// CANCELLED are ambiguous; answers with any other code are stored.
func ThreeClasses(c code.Code) retrysafe.Class {
	switch c {
	case code.Code_UNAVAILABLE, code.Code_RESOURCE_EXHAUSTED, code.Code_UNAUTHENTICATED, code.Code_PERMISSION_DENIED,
		code.Code_ABORTED:
		return retrysafe.ClassRelease
	case code.Code_OK, code.Code_INVALID_ARGUMENT, code.Code_NOT_FOUND, code.Code_ALREADY_EXISTS,
		code.Code_FAILED_PRECONDITION, code.Code_OUT_OF_RANGE, code.Code_UNIMPLEMENTED:
		return retrysafe.ClassStore
	}
	return retrysafe.ClassAmbiguous
}

// class returns the class of an answer. Unless o.Class was set, a bare UNAVAILABLE is ambiguous: a handler that returns the
// error of a call it made passes on the UNAVAILABLE of a connection that broke after its effect. With a RetryInfo the
// handler has decided about it, as with Retry-After over HTTP.
func (o Options) class(reply Reply) retrysafe.Class {
	c := reply.code()
	if o.Class != nil {
		return o.Class(c)
	}
	if _, asksToWait, stop := waitFor(reply); c == code.Code_UNAVAILABLE && (!asksToWait || stop) {
		return retrysafe.ClassAmbiguous
	}
	return ThreeClasses(c)
}
