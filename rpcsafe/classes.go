package rpcsafe

import "google.golang.org/genproto/googleapis/rpc/code"

// Class says what a call's code means for its key.
type Class uint8

// The classes. Those that users see are documented by the adapters.
const (
	ClassStore Class = iota + 1
	ClassRelease
	ClassAmbiguous

	ClassUnknown // the handler's word: see Unknown
)

// AmbiguousPolicy says what becomes of an ambiguous answer's key.
type AmbiguousPolicy uint8

// The policies, documented by the adapters.
const (
	AmbiguousStore AmbiguousPolicy = iota + 1
	AmbiguousRelease
	AmbiguousUnknown
)

// ThreeClasses is the default.
func ThreeClasses(c code.Code) Class {
	switch c {
	case code.Code_UNAVAILABLE, code.Code_RESOURCE_EXHAUSTED, code.Code_UNAUTHENTICATED, code.Code_PERMISSION_DENIED, code.Code_ABORTED:
		return ClassRelease // nothing happened
	case code.Code_OK, code.Code_INVALID_ARGUMENT, code.Code_NOT_FOUND, code.Code_ALREADY_EXISTS, code.Code_FAILED_PRECONDITION,
		code.Code_OUT_OF_RANGE, code.Code_UNIMPLEMENTED:
		return ClassStore
	}
	return ClassAmbiguous
}

// apply replaces ClassAmbiguous by what is to be done.
func (p AmbiguousPolicy) apply(c Class) Class {
	if c != ClassAmbiguous {
		return c
	}
	switch p {
	case AmbiguousRelease:
		return ClassRelease
	case AmbiguousUnknown:
		return ClassUnknown
	}
	return ClassStore
}
