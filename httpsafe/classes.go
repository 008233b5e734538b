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
)

// ClassFunc tells the class of a final status, 200 to 999.
type ClassFunc func(status int) Class

// AmbiguousPolicy says what becomes of an ambiguous response's key.
type AmbiguousPolicy uint8

const (
	// AmbiguousStore keeps and replays the response: the operation never runs twice. Default.
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

// StoreSuccesses stores 2xx and releases everything else.
func StoreSuccesses(status int) Class {
	if status < 200 || status > 299 {
		return ClassRelease
	}
	return ClassStore
}

// StoreSuccessesAndRefusals stores 2xx and 4xx, except refusals that assert that nothing happened; the rest releases.
func StoreSuccessesAndRefusals(status int) Class {
	isRefusal := 400 <= status && status <= 499 && !assertsNothingHappened(status)
	if isRefusal || 200 <= status && status <= 299 {
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
