package rpcsafe

import "google.golang.org/genproto/googleapis/rpc/code"

// Class is what an answer means for the key of its call.
type Class uint8

// The classes.
const (
	// ClassStore is for a definite outcome: the answer is stored and replayed.
	ClassStore Class = iota + 1
	// ClassRelease is for an answer that asserts that nothing happened: it is sent, and the key is free again.
	ClassRelease
	// ClassAmbiguous is for an answer after which something may have happened: Options.Ambiguous decides.
	ClassAmbiguous
	// ClassUnknown abandons the key: the Guard's policy for abandoned keys decides what a retry gets.
	ClassUnknown
)

// AmbiguousPolicy decides what an ambiguous answer means for its key.
type AmbiguousPolicy uint8

// The policies.
const (
	// AmbiguousStore stores and replays the answer: the operation never runs twice.
	AmbiguousStore AmbiguousPolicy = iota + 1
	// AmbiguousRelease frees the key. Only for operations that may run twice, or that undo everything before they fail.
	AmbiguousRelease
	// AmbiguousUnknown abandons the key: the Guard's policy for abandoned keys decides what a retry gets.
	AmbiguousUnknown
)

// ThreeClasses is the default ClassFunc. Codes that assert that nothing happened (UNAVAILABLE, RESOURCE_EXHAUSTED, UNAUTHENTICATED,
// PERMISSION_DENIED, ABORTED) release the key; UNKNOWN, INTERNAL, DATA_LOSS, DEADLINE_EXCEEDED and CANCELLED are ambiguous; answers with
// any other code are stored.
func ThreeClasses(c code.Code) Class {
	switch c {
	case code.Code_UNAVAILABLE, code.Code_RESOURCE_EXHAUSTED, code.Code_UNAUTHENTICATED, code.Code_PERMISSION_DENIED, code.Code_ABORTED:
		return ClassRelease
	case code.Code_OK, code.Code_INVALID_ARGUMENT, code.Code_NOT_FOUND, code.Code_ALREADY_EXISTS, code.Code_FAILED_PRECONDITION,
		code.Code_OUT_OF_RANGE, code.Code_UNIMPLEMENTED:
		return ClassStore
	}
	return ClassAmbiguous
}

// apply replaces ClassAmbiguous by the class that the policy stands for.
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
