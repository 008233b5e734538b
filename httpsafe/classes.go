package httpsafe

import "net/http"

// Class says what a response's status means for its key.
type Class uint8

const (
	// ClassStore: the outcome is definite; the response is kept and replayed.
	ClassStore Class = iota + 1
	// ClassRelease: nothing happened; the response is sent, the key is free again.
	ClassRelease
	// ClassAmbiguous: something may have happened; Options.Ambiguous decides.
	ClassAmbiguous

	classUnknown // the handler's word: see Unknown
	classUnsure  // the same, and Options.Ambiguous may free the key: see Ambiguous
	classBusy    // another layer's attempt is at work; this one did nothing
)

// ClassFunc tells the class of a final status, 200 to 999. It judges answers of the handler only: one that is made up because
// the outcome is not known (see Ambiguous) is never judged by its status, and a 4xx by which another layer says that it is at
// work under the key is never kept.
type ClassFunc func(status int) Class

// AmbiguousPolicy says what becomes of an ambiguous response's key.
type AmbiguousPolicy uint8

const (
	// AmbiguousStore keeps and replays the response: the operation never runs twice.
	AmbiguousStore AmbiguousPolicy = iota + 1
	// AmbiguousRelease frees the key. Only for operations that may run twice, or that undo all they did before they
	// fail.
	AmbiguousRelease
	// AmbiguousUnknown abandons the key: the Guard's policy for abandoned keys decides what a retry gets. If it is not Refuse,
	// Idempotency-Status has the parameter retry ("unknown; retry"), by which a Transport knows that asking again helps.
	AmbiguousUnknown
)

// ThreeClasses is the default: refusals that assert that nothing happened (401, 403, 407, 408, 421, 423, 425, 429, 503,
// 511) release, other server errors are ambiguous, everything else is stored.
func ThreeClasses(status int) Class {
	switch {
	case assertsNothingHappened(status):
		return ClassRelease
	case status >= 500:
		return ClassAmbiguous
	}
	return ClassStore
}

// StoreAll stores every response, as the draft reads literally.
func StoreAll(int) Class { return ClassStore }

// StoreExecuted stores everything, server errors too, except refusals that assert that nothing happened, and 409.
func StoreExecuted(status int) Class {
	if assertsNothingHappened(status) || status == http.StatusConflict {
		return ClassRelease
	}
	return ClassStore
}

// StoreSuccesses stores 2xx and 3xx and releases everything else. A redirect after a POST is how its success is answered.
func StoreSuccesses(status int) Class {
	if status < 200 || status > 399 {
		return ClassRelease
	}
	return ClassStore
}

// StoreSuccessesAndRefusals stores 2xx, 3xx and 4xx, except refusals that assert that nothing happened; the rest releases.
func StoreSuccessesAndRefusals(status int) Class {
	isRefusal := 400 <= status && status <= 499 && !assertsNothingHappened(status)
	if isRefusal || 200 <= status && status <= 399 {
		return ClassStore
	}
	return ClassRelease
}

// StoreUnlessFailed stores everything below 400; failures run again.
func StoreUnlessFailed(status int) Class {
	if status >= 400 {
		return ClassRelease
	}
	return ClassStore
}

func assertsNothingHappened(status int) bool {
	switch status {
	case 401, 403, 407, 408, 421, 423, 425, 429, 503, 511:
		return true
	}
	return false
}
