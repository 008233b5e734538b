package grpcprobe

import "github.com/retrysafe/retrysafe/probe"

const (
	draft   = "draft-ietf-httpapi-idempotency-key-header-07"
	aip     = "AIP-155"
	meaning = "google/rpc/code.proto"
)

// cases are those of package probe that matter most, over gRPC.
func (s *suite) cases() []probe.Case {
	return []probe.Case{
		probe.Case{
			ID: "G01", Name: "retry", Checks: "The same call again gets the first response, and nothing happens twice.",
			Source: draft + " §2.6, " + aip, Severity: probe.Critical, Safe: true, Why: "A client whose deadline ends before it has heard retries, and pays twice.",
			Fix: "Save the response with the key in one atomic step, and look the key up before the work begins.",
		}.Played(s.by(retry)),
		probe.Case{
			ID: "G02", Name: "another request", Checks: "Another request under the same key is refused, and nothing happens.",
			Source: draft + " §2.7, " + meaning, Severity: probe.Critical, Safe: true,
			Why:   "A client that mixes up its keys believes that its second request was carried out, or a key no longer protects.",
			Fix:   "Save a fingerprint of method and request with the key, and answer FAILED_PRECONDITION if it differs: nobody retries that.",
			Needs: []probe.Need{aChangingRequest()},
		}.Played(s.by(anotherRequest)),
		probe.Case{
			ID: "G03", Name: "two at once", Checks: "Two calls at once are one effect; each gets the response, or is told that one is outstanding.",
			Source: draft + " §2.6, " + meaning, Severity: probe.Critical, Safe: true,
			Why: "A hedged or impatient client has two calls under way: both look, neither finds a result, both run.",
			Fix: "Claim the key before the work begins, in one atomic step; answer ABORTED with a RetryInfo while it runs.",
		}.Played(s.by(twoAtOnce)),
		probe.Case{
			ID: "G04", Name: "fifty at once", Checks: "Fifty calls at once, over a connection each, are exactly one effect.",
			Source: draft + " §2.6", Severity: probe.Critical, Safe: true, Why: "A race that two calls seldom win is won by fifty.",
			Fix: "Let the store decide: an insert with a unique key, or a conditional write. A look before it does not help.",
		}.Played(s.by(manyAtOnce)),
		probe.Case{
			ID: "G05", Name: "malformed key", Checks: "A key that begins with a quote and does not end with one is refused with INVALID_ARGUMENT; nothing happens.",
			Source: "RFC 9651 §3.3.3, " + draft + " §2.1", Severity: probe.Major, Safe: true,
			Why: "A client with a bug in how it writes keys believes that it is protected, and is not.",
			Fix: "Parse the key before anything else, and answer INVALID_ARGUMENT with a BadRequest detail.",
		}.Played(s.by(malformedKey)),
		probe.Case{
			ID: "G06", Name: "another caller", Checks: "The same key from another caller is another key: nobody sees another's response.",
			Source: draft + " §5", Severity: probe.Critical, Safe: true, Why: "Whoever guesses or reads a key gets somebody else's response, or blocks it.",
			Fix: "Make the authenticated caller a part of the key.", Needs: []probe.Need{twoCallers()},
		}.Played(s.by(anotherCaller)),
		probe.Case{
			ID: "G07", Name: "errors", Checks: "An error after which nobody knows what happened does not run again; one that says that nothing happened is not kept.",
			Source: draft + " §2.6, " + meaning, Severity: probe.Critical,
			Why:   "An INTERNAL that frees its key lets the retry do it twice; an UNAVAILABLE that is kept cannot be retried for as long as keys are kept.",
			Fix:   "Keep INTERNAL, UNKNOWN and their like with the key; free it after UNAVAILABLE, RESOURCE_EXHAUSTED, UNAUTHENTICATED, PERMISSION_DENIED and ABORTED.",
			Needs: []probe.Need{anError()},
		}.Played(s.by(errorsAgain)),
		probe.Case{
			ID: "G08", Name: "marker", Checks: "A replay says so in its initial metadata, and a first response does not.",
			Source: "common practice: idempotent-replayed", Severity: probe.Minor,
			Why: "A client cannot tell whether it was the first, and counts its sales wrongly.",
			Fix: "Set idempotent-replayed: true in the header metadata of replays, and only there.",
		}.Played(s.by(marker)),
	}
}

func aChangingRequest() probe.Need {
	return probe.NewNeed("a generator such as {{amount}} in the request, so that another one can be made", func(r *probe.Recipe) bool {
		return hasPlace(r.Request.Body)
	})
}

func twoCallers() probe.Need {
	return probe.NewNeed("credentials a and b: the metadata of two callers", func(r *probe.Recipe) bool { return len(r.A) > 0 && len(r.B) > 0 })
}

func anError() probe.Need {
	return probe.NewNeed("variants.broken: a call that ends with INTERNAL, UNAVAILABLE or their like; or variants.failing, one that is refused", func(r *probe.Recipe) bool {
		return r.Variants.Broken != nil || r.Variants.Failing != nil
	})
}
