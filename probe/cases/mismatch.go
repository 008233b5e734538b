package cases

import (
	"net/http"
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/wire"
)

const comparing = draft + " §2.4, §2.7"

// mismatches: another request under a key that has been used.
func mismatches(s *session) []probe.Case {
	return []probe.Case{
		{
			ID: "M01", Name: "other body", Severity: probe.Critical, Safe: true,
			Checks: "A request with a used key and a different body is refused and does not run.",
			Why:    "The client believes that its second operation ran, or two operations run under one key.",
			Fix: "Save a fingerprint of the request with the key. Compare it first, and answer a mismatch with " +
				"the profile's status, such as 422.",
			Source: draft + " §2.7", Needs: s.needs(changingBody), Play: s.play(otherBody),
		},
		{
			ID: "M02", Name: "retry after mismatch", Severity: probe.Critical, Safe: true,
			Checks: "After a mismatch, a retry of the first request still gets the first answer.",
			Why:    "One client's mistake deletes a saved answer, and the retry of the first request runs again.",
			Fix:    "Do not change the key's record when you refuse a mismatch.",
			Source: draft + " §2.6", Needs: s.needs(changingBody), Play: s.play(noPoison),
		},
		{
			ID: "M03", Name: "other method", Severity: probe.Major,
			Checks: "A PATCH with the key of a POST does not get the answer to the POST.",
			Why:    "The client believes that its change was made, but it never ran.",
			Fix:    "Include the method in the fingerprint or in the scope of keys.",
			Source: comparing, Play: s.play(otherMethod),
		},
		{
			ID: "M04", Name: "other route", Severity: probe.Critical,
			Checks: "A request to another route with a used key does not get the answer of the first route.",
			Why:    "A client that uses one key for all requests of an order gets an answer about the wrong resource.",
			Fix:    "Include the route in the fingerprint or in the scope of keys.",
			Source: comparing, Needs: s.needs(other), Play: s.play(otherRoute),
		},
		{
			ID: "M05", Name: "other query", Severity: probe.Major,
			Checks: "A request to the same path with a different query string does not get the first answer.",
			Why:    "The real request gets the answer to a dry run, and never runs.",
			Fix:    "Include the query string in the fingerprint.",
			Source: comparing, Play: s.play(otherQuery),
		},
		{
			ID: "M06", Name: "other media type", Severity: probe.Major,
			Checks: "The same body with a different Content-Type is a mismatch. It does not run, and does not " +
				"get the first answer.",
			Why: "The same bytes can mean something else in another format. The client gets an answer to a " +
				"request that it did not make.",
			Fix:    "Include the Content-Type in the fingerprint.",
			Source: comparing, Needs: s.needs(someBody), Play: s.play(otherMedia),
		},
		{
			ID: "M07", Name: "member order", Severity: probe.Critical,
			Checks: "The same JSON with its members in another order is replayed or refused. It does not run again.",
			Why:    "A client that builds the body anew for each attempt pays twice.",
			Fix:    "Compare bodies before the operation runs. If you compare canonical JSON, such clients can retry.",
			Source: comparing, Needs: s.needs(twoMembers), Play: s.play(otherOrder),
		},
		{
			ID: "M08", Name: "white space", Severity: probe.Critical,
			Checks: "The same JSON with different white space is replayed or refused. It does not run again.",
			Why:    "A client that builds the body anew for each attempt pays twice.",
			Fix:    "Compare bodies before the operation runs. If you compare canonical JSON, such clients can retry.",
			Source: comparing, Needs: s.needs(jsonBody), Play: s.play(otherSpace),
		},
		{
			ID: "M09", Name: "precision", Severity: probe.Critical,
			Checks: "Two requests whose numbers differ only beyond the precision of a float64 are different " +
				"requests.",
			Why:    "A request about one account number gets the answer about another.",
			Fix:    "Compare numbers as they are written, not as floating-point values.",
			Source: "RFC 8259 §6", Needs: s.needs(jsonObject), Play: s.play(precision),
		},
		{
			ID: "M10", Name: "duplicate member", Severity: probe.Major,
			Checks: "A body in which a JSON member occurs twice is not the same request as one with the last " +
				"occurrence alone.",
			Why:    "The parser that compares requests and the parser of the operation may read different values.",
			Fix:    "Refuse JSON with duplicate members, or compare the bytes of the body.",
			Source: "RFC 8259 §4", Needs: s.needs(jsonObject), Play: s.play(duplicateMember),
		},
		{
			ID: "M11", Name: "other headers", Severity: probe.Major,
			Checks: "A retry with a different traceparent header gets the first answer.",
			Why:    "Tracing libraries send a new span with each attempt. Clients that use one cannot retry.",
			Fix:    "Leave headers that proxies and libraries change out of the fingerprint.",
			Source: "Trace Context §3; OASIS Repeatable Requests 1.0", Play: s.play(otherHeaders),
		},
		{
			ID: "M12", Name: "error document", Severity: probe.Minor, Draft: true,
			Checks: "The answer to a mismatch is a problem document (RFC 9457) that links to the documentation.",
			Why:    "Developers see the status 422 and cannot find out why.",
			Fix: "Answer application/problem+json with the URL of an existing page as its type, or add a Link " +
				"header with rel=describedby.",
			Source: draft + " §2.7; RFC 9457",
			Needs:  s.needs(changingBody), Profiles: s.profilesWith(hasProblems), Play: s.play(errorDocument),
		},
		{
			ID: "M13", Name: "repeated mismatches", Severity: probe.Critical,
			Checks: "After several mismatches, a retry of the first request still gets the first answer.",
			Why:    "The answer to a payment is lost: the client gets an error until the key expires.",
			Fix:    "Never save a refusal by the idempotency layer as the answer to a key.",
			Source: draft + " §2.6", Needs: s.needs(changingBody), Play: s.play(refusalsNotKept),
		},
		{
			ID: "M14", Name: "other host", Severity: probe.Critical,
			Checks: "The same request to another host name does not get the answer of the first host.",
			Why:    "One tenant gets another tenant's answer, and its own operation never runs.",
			Fix:    "Include the host in the fingerprint or in the scope of keys.",
			Source: comparing + "; RFC 9110 §7.1", Needs: s.needs(anotherHost), Play: s.play(otherHost),
		},
		{
			ID: "M15", Name: "method override", Severity: probe.Major,
			Checks: "A request with X-HTTP-Method-Override for another method does not get the first answer.",
			Why:    "The client believes that its PATCH or DELETE ran, but it got the answer to a POST.",
			Fix:    "If such a header decides which operation runs, include it in the fingerprint.",
			Source: comparing, Play: s.play(methodOverride),
		},
	}
}

// wantMismatch notes a FAIL unless another request under the same key is answered as the profile has it.
func wantMismatch(t *run, first, a wire.Answer) {
	const what = "the other request"
	switch {
	case !wantAnswer(t, what, a):
	case !a.OK():
		wantReason(t, what, a)
	case !shows(t, first, a):
		t.Failf("%s (%d) got %d: it ran under the key of the first: %s", what, a.No, a.Status, body(a))
	case !t.rules.Compares:
		t.Infof("the API does not compare requests: %s (%d) got the first answer", what, a.No)
	case t.rules.LooseBody:
		t.Warnf("%s (%d) got the first answer: profile %s allows it, but the client does not learn of its mistake", what,
			a.No, t.rules.Name)
	default:
		t.Failf("%s (%d) got the first answer: the client believes that this request ran", what, a.No)
	}
}

// wantReason notes a FAIL unless a refusal says what it is about, as the profile has it.
func wantReason(t *run, what string, a wire.Answer) bool {
	switch {
	case a.Status < 400:
		t.Failf("%s (%d) got %d, which is neither a success nor a refusal", what, a.No, a.Status)
	case len(t.rules.Mismatch) > 0 && !slices.Contains(t.rules.Mismatch, a.Status):
		t.Failf("%s (%d) was refused with %d; profile %s says %s, by which clients recognise a mismatch", what, a.No, a.Status,
			t.rules.Name, statuses(t.rules.Mismatch))
	case !strings.Contains(string(a.Plain()), t.rules.MismatchText):
		t.Failf("%s (%d) was refused without %q in the body: %s", what, a.No, t.rules.MismatchText, body(a))
	case !saysNothingDone(t, a):
		t.Failf("%s (%d) was refused without %s: %s", what, a.No, t.rules.Marker, t.rules.RefusalValue)
	default:
		t.Observe(func(o *probe.Observed) { o.Mismatch = a.Status })
		return true
	}
	return false
}

// sendSame sends a request that means the same as the first, or nearly so, with the first one's key. It notes a FAIL
// if it was carried out again, and reports whether it was taken for the first one's retry.
func sendSame(t *run, what string, first wire.Answer, r wire.Request) (a wire.Answer, replayed bool) {
	a = t.Send(what, r)
	switch {
	case !wantAnswer(t, what, a):
	case shows(t, first, a):
		return a, true
	case a.OK():
		t.Failf("%s (%d) got %d: it ran again: %s", what, a.No, a.Status, body(a))
	case a.Status < 400:
		t.Failf("%s (%d) got %d, which is neither a success nor a refusal", what, a.No, a.Status)
	}
	return a, false
}

// sendForeign sends a request that is not the first one's retry, with its key, and notes the verdict if it gets the
// first one's answer. Whether it is refused or carried out for itself is left to the case.
func sendForeign(t *run, what string, verdict probe.Verdict, first wire.Answer, r wire.Request) (a wire.Answer,
	ok bool,
) {
	a = t.Send(what, r)
	switch {
	case a.Status == http.StatusNotImplemented: // of the method, or of keys here: both are fine
		return a, true
	case !wantAnswer(t, what, a):
		return a, false
	case shows(t, first, a):
		t.Notef(verdict, "%s (%d) got the answer of the first request (%d)", what, a.No, first.No)
		return a, false
	}
	return a, true
}
