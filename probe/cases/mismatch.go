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
			Checks: "Another body under the same key is refused, and never carried out.",
			Why: "The client believes that what it asked for the second time has happened, or both things happen " +
				"under one key.",
			Fix: "Keep a fingerprint of the request with the key, compare it before anything else, and refuse with " +
				"the profile's status.",
			Source: draft + " §2.7", Needs: s.needs(changingBody), Play: s.play(otherBody),
		},
		{
			ID: "M02", Name: "no poison", Severity: probe.Critical, Safe: true,
			Checks: "A refused request does not spoil the key: the first one's retry gets its answer.",
			Why:    "One client's mistake deletes another one's answer, and its retry runs again.",
			Fix:    "A mismatch must not write to the record.",
			Source: draft + " §2.6", Needs: s.needs(changingBody), Play: s.play(noPoison),
		},
		{
			ID: "M03", Name: "other method", Severity: probe.Major,
			Checks: "PATCH with the key of a POST does not get the POST's answer.",
			Why:    "The client believes that a change was made that was not.",
			Fix:    "The method belongs to the fingerprint, or to the key's scope.",
			Source: comparing, Play: s.play(otherMethod),
		},
		{
			ID: "M04", Name: "other route", Severity: probe.Critical,
			Checks: "The same key at another route never gets the first route's answer.",
			Why:    "A client that uses one key for a whole order gets an answer about another resource.",
			Fix:    "The route belongs to the fingerprint, or to the key's scope.",
			Source: comparing, Needs: s.needs(other), Play: s.play(otherRoute),
		},
		{
			ID: "M05", Name: "other query", Severity: probe.Major,
			Checks: "The same path with another query does not silently get the first answer.",
			Why:    "A dry run's answer is given to the real request.",
			Fix:    "The query belongs to the fingerprint.",
			Source: comparing, Play: s.play(otherQuery),
		},
		{
			ID: "M06", Name: "other media type", Severity: probe.Major,
			Checks: "The same bytes as another media type are another request.",
			Why:    "Bytes mean something else in another format.",
			Fix:    "The media type belongs to the fingerprint.",
			Source: comparing, Needs: s.needs(someBody), Play: s.play(otherMedia),
		},
		{
			ID: "M07", Name: "member order", Severity: probe.Critical,
			Checks: "JSON with its members in another order is refused or replayed, and never carried out again.",
			Why:    "Clients that build the body again for each try pay twice.",
			Fix:    "Compare before the work begins; a canonical form of JSON is kinder to clients.",
			Source: comparing, Needs: s.needs(twoMembers), Play: s.play(otherOrder),
		},
		{
			ID: "M08", Name: "white space", Severity: probe.Critical,
			Checks: "JSON with other white space is refused or replayed, and never carried out again.",
			Why:    "Clients that build the body again for each try pay twice.",
			Fix:    "Compare before the work begins; a canonical form of JSON is kinder to clients.",
			Source: comparing, Needs: s.needs(jsonBody), Play: s.play(otherSpace),
		},
		{
			ID: "M09", Name: "precision", Severity: probe.Critical,
			Checks: "Numbers that differ only beyond what a float64 can hold are different.",
			Why:    "A request about another account number gets the first one's answer.",
			Fix:    "Compare numbers as they are written.",
			Source: "RFC 8259 §6", Needs: s.needs(jsonObject), Play: s.play(precision),
		},
		{
			ID: "M10", Name: "duplicate member", Severity: probe.Major,
			Checks: "A member that is there twice is not the same as its last one alone.",
			Why:    "What was compared is not what another parser carries out.",
			Fix:    "Refuse duplicate members, or compare bytes.",
			Source: "RFC 8259 §4", Needs: s.needs(jsonObject), Play: s.play(duplicateMember),
		},
		{
			ID: "M11", Name: "other headers", Severity: probe.Major,
			Checks: "A retry with another traceparent is a retry.",
			Why:    "Every retry has its own span: clients with tracing can never retry.",
			Fix:    "Leave out of the fingerprint what proxies and libraries change.",
			Source: "Trace Context §3; OASIS Repeatable Requests 1.0", Play: s.play(otherHeaders),
		},
		{
			ID: "M12", Name: "error document", Severity: probe.Minor, Draft: true,
			Checks: "A mismatch is a problem document with a link to the rules.",
			Why:    "Developers see 422 and do not learn why.",
			Fix:    "Answer application/problem+json whose type is a page that exists, or a Link with rel=describedby.",
			Source: draft + " §2.7; RFC 9457",
			Needs:  s.needs(changingBody), Profiles: problemProfiles, Play: s.play(errorDocument),
		},
		{
			ID: "M13", Name: "refusals are not kept", Severity: probe.Critical,
			Checks: "However many mismatches there were, the first request's answer stays.",
			Why:    "The answer to a payment is lost: the client sees an error for ever.",
			Fix:    "Never save what the layer itself has answered.",
			Source: draft + " §2.6", Needs: s.needs(changingBody), Play: s.play(refusalsNotKept),
		},
		{
			ID: "M14", Name: "other host", Severity: probe.Critical,
			Checks: "The same request to another host does not get the first host's answer.",
			Why:    "What one tenant asks for is never done, and it is shown what another one has.",
			Fix:    "The host belongs to the fingerprint, or to the key's scope.",
			Source: comparing + "; RFC 9110 §7.1", Needs: s.needs(anotherHost), Play: s.play(otherHost),
		},
		{
			ID: "M15", Name: "method override", Severity: probe.Major,
			Checks: "A request whose X-HTTP-Method-Override is another does not get the first one's answer.",
			Why:    "The client believes that something was deleted that was only changed.",
			Fix:    "Where such a header decides what is done, it belongs to the fingerprint.",
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
		t.Failf("%s (%d) got %d: it was carried out under the key of the first: %s", what, a.No, a.Status, body(a))
	case !t.rules.Compares:
		t.Infof("requests are not compared: %s (%d) got the first one's answer", what, a.No)
	case t.rules.LooseBody:
		t.Warnf("%s (%d) got the first one's answer: profile %s allows it, and the client does not learn of its "+
			"mistake", what,
			a.No, t.rules.Name)
	default:
		t.Failf("%s (%d) got the first one's answer: the client believes that it happened", what, a.No)
	}
}

// wantReason notes a FAIL unless a refusal says what it is about, as the profile has it.
func wantReason(t *run, what string, a wire.Answer) bool {
	switch {
	case a.Status < 400:
		t.Failf("%s (%d) got %d, which is neither a success nor a refusal", what, a.No, a.Status)
	case len(t.rules.Mismatch) > 0 && !slices.Contains(t.rules.Mismatch, a.Status):
		t.Failf("%s (%d) was refused with %d; profile %s says %s: clients cannot see what is wrong", what, a.No, a.Status,
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
		t.Failf("%s (%d) got %d: it was carried out again: %s", what, a.No, a.Status, body(a))
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
