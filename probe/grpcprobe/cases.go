package grpcprobe

import (
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/retrysafe/retrysafe/probe"
)

const (
	draft   = "draft-ietf-httpapi-idempotency-key-header-07"
	aip     = "AIP-155"
	meaning = "google/rpc/code.proto"
)

// cases returns the cases of package cases that matter most, for gRPC.
func cases(s *session) []probe.Case {
	return []probe.Case{
		{
			ID: "G01", Name: "retry", Severity: probe.Critical, Safe: true,
			Checks: "A retry of a call gets the first response, and the operation does not run again.",
			Why:    "A client whose deadline passes before the response arrives retries, and the customer pays twice.",
			Fix: "Look the key up before the operation runs. Save the response together with the key, in one " +
				"atomic step.",
			Source: draft + " §2.6, " + aip, Play: s.play(retry),
		},
		{
			ID: "G02", Name: "another request", Severity: probe.Critical, Safe: true,
			Checks: "A different request with a used key is refused and does not run.",
			Why:    "The client believes that its second operation ran, or two operations run under one key.",
			Fix: "Save a fingerprint of the method and the request with the key. Answer a mismatch with " +
				"FAILED_PRECONDITION, which clients do not retry.",
			Source: draft + " §2.7, " + meaning, Needs: changingRequest(s), Play: s.play(anotherRequest),
		},
		{
			ID: "G03", Name: "two at once", Severity: probe.Critical, Safe: true,
			Checks: "Two simultaneous calls with one key have one effect. Each gets the response or is told that " +
				"the key is in flight.",
			Why: "A hedging or impatient client makes two calls at once. Both look the key up, neither finds a " +
				"result, and both run.",
			Fix: "Claim the key in one atomic step before the operation runs. While it runs, answer duplicates " +
				"with ABORTED and RetryInfo.",
			Source: draft + " §2.6, " + meaning, Play: s.play(twoAtOnce),
		},
		{
			ID: "G04", Name: "fifty at once", Severity: probe.Critical, Safe: true,
			Checks: "Fifty simultaneous calls with one key, each on its own connection, have exactly one effect.",
			Why:    "A race that two calls rarely hit shows under load. The customer then pays several times.",
			Fix: "Let the store decide, by an insert with a unique key or a conditional write. A lookup before " +
				"it does not prevent the race.",
			Source: draft + " §2.6", Play: s.play(manyAtOnce),
		},
		{
			ID: "G05", Name: "malformed key", Severity: probe.Major, Safe: true,
			Checks: "A key with an opening quote but no closing quote is refused with INVALID_ARGUMENT, and " +
				"nothing runs.",
			Why: "The client believes that it can retry safely, but its retry runs again.",
			Fix: "Parse the key before the operation runs. Answer INVALID_ARGUMENT with a BadRequest detail if " +
				"it is malformed.",
			Source: "RFC 9651 §3.3.3, " + draft + " §2.1", Play: s.play(malformedKey),
		},
		{
			ID: "G06", Name: "another caller", Severity: probe.Critical, Safe: true,
			Checks: "Another caller with the same key gets its own response.",
			Why:    "A caller that guesses or reads a key gets another caller's response, or blocks that caller's key.",
			Fix:    "Make the authenticated caller part of the key.",
			Source: draft + " §5", Needs: twoCallers(s), Play: s.play(anotherCaller),
		},
		{
			ID: "G07", Name: "errors", Severity: probe.Critical,
			Checks: "After an error of unknown outcome, a retry does not run again. An error that says that " +
				"nothing happened is not saved.",
			Why: "If INTERNAL releases its key, a retry runs the operation twice. If UNAVAILABLE is saved, " +
				"clients cannot retry until the key expires.",
			Fix: "Save INTERNAL, UNKNOWN and similar errors under the key. Release the key after UNAVAILABLE, " +
				"RESOURCE_EXHAUSTED, UNAUTHENTICATED, PERMISSION_DENIED and ABORTED.",
			Source: draft + " §2.6, " + meaning, Needs: anError(s), Play: s.play(errorsAgain),
		},
		{
			ID: "G08", Name: "marker", Severity: probe.Minor,
			Checks: "A replay is marked in its initial metadata, and the first response is not.",
			Why:    "A client cannot tell whether its call was the first, and counts its sales wrongly.",
			Fix:    "Set idempotent-replayed: true in the header metadata of replays only.",
			Source: "common practice: idempotent-replayed", Play: s.play(markerOnReplay),
		},
	}
}

// changingRequest returns the need for a request that the probe can change.
func changingRequest(s *session) []probe.Need {
	return s.needs("a generator such as {{amount}} in the request, so that the probe can make a different one", func(r *Recipe) bool {
		return probe.Mentions(r.Call.Request, "")
	})
}

// twoCallers returns the need for two callers.
func twoCallers(s *session) []probe.Need {
	return s.needs("credentials a and b: the metadata of two callers",
		func(r *Recipe) bool { return len(r.A) > 0 && len(r.B) > 0 })
}

// anError returns the need for a call that fails.
func anError(s *session) []probe.Need {
	return s.needs("variants.broken: a call that ends with INTERNAL, UNAVAILABLE or a similar code; or "+
		"variants.failing: a call that is refused", func(r *Recipe) bool { return r.Broken != nil || r.Failing != nil })
}

// retry plays G01.
func retry(t *run) {
	c := t.new("call")
	first := t.first("first", c)
	again := t.send("retry", c)
	wantReplay(t, first, again)
	t.wantEffects(1, first, again)
}

// anotherRequest plays G02. The code matters as much as the refusal: clients retry UNAVAILABLE and ABORTED on their
// own, and after UNKNOWN they do not know whether the call ran.
func anotherRequest(t *run) {
	v, key := t.intents.Next(), probe.NewUUID()
	first := t.first("first", t.keyed(t.from("call", v), key))
	other := t.send("same key, another request", t.keyed(t.from("call", v.Changed(t.recipe.calls()["call"])), key))
	want := t.rules.mismatch
	if other.ended && !other.ok() {
		t.Observe(func(o *probe.Observed) { o.Mismatch = int(other.code) })
	}
	switch {
	case !other.ended:
		t.Brokenf("the other request (%d) got %s", other.no, other.text())
	case other.ok() && t.id(other) != t.id(first):
		t.Failf("the other request (%d) ran with a used key: it shows %q, the first response %q",
			other.no, t.id(other), t.id(first))
		return
	case other.ok() && t.rules.compares:
		t.Failf("the other request (%d) got the first response: the client believes that it ran", other.no)
	case other.ok():
		t.Infof("another request with the same key gets the first response")
	case len(want) == 0:
		t.Infof("another request with the same key is refused with %s", other.text())
	case right(other, want):
	case nothingHappened(other.code):
		t.Failf("the other request (%d) was refused with %s, which clients retry, although it can never "+
			"succeed; use %s", other.no,
			nameOf(other.code), want)
	case unclear(other.code):
		t.Failf("the other request (%d) was refused with %s, which leaves open whether it ran; %s says that it "+
			"did not",
			other.no, nameOf(other.code), want)
	default:
		t.Warnf("the other request (%d) was refused with %s; %s is the code for it", other.no, nameOf(other.code), want)
	}
	t.wantEffects(1, first)
}

// malformedKey plays G05. Where keys are opaque, a key with one quote is a key like any other, so the case records what
// the server does.
func malformedKey(t *run) {
	malformed := `"` + probe.NewUUID()
	a := t.send("malformed key", t.keyed(t.from("call", t.intents.Next()), malformed))
	want := t.rules.malformed
	judged := len(want) > 0 && t.rules.field == ""
	if !a.ok() && a.ended {
		t.Observe(func(o *probe.Observed) { o.Malformed = int(a.code) })
	}
	switch {
	case !a.ended:
		t.Failf("the call (%d) with the key %s got %s", a.no, malformed, a.text())
	case a.ok() && judged:
		t.Failf("the call (%d) ran with the malformed key %s", a.no, malformed)
	case a.ok():
		t.Infof("%s works as a key", malformed)
	case !judged:
		t.Infof("%s is refused with %s", malformed, a.text())
	case !right(a, want):
		t.Warnf("the malformed key (%d) was refused with %s; %s is the code for it", a.no, nameOf(a.code), want)
	}
	if !a.ok() {
		t.wantEffects(0, a)
	}
}

// anotherCaller plays G06. A refusal for lack of rights ends the case: then the key is not the reason.
func anotherCaller(t *run) {
	c := t.new("call")
	mine := t.first("caller A", c)
	theirs := t.send("caller B, same key", c.as(t.recipe.B...))
	id := t.id(mine)
	// not there by chance
	inError := theirs.ended && !theirs.ok() && len(id) >= 8 && strings.Contains(string(theirs.body), id)
	switch {
	case !theirs.ended:
		t.Brokenf("caller B (%d) got %s", theirs.no, theirs.text())
	case t.id(theirs) == id || inError:
		t.Failf("caller B (%d) was shown %q, which caller A created (%d)", theirs.no, id, mine.no)
	case theirs.ok():
		t.wantEffects(2, mine, theirs)
	case theirs.code == codes.Unauthenticated || theirs.code == codes.PermissionDenied:
		t.Brokenf("caller B (%d) may not make the call: %s", theirs.no, theirs.text())
	case t.rules.name == "ietf":
		t.Failf("caller B (%d) got %s: a key that one caller used is blocked for all others", theirs.no, theirs.text())
	default:
		t.Infof("keys are shared by all callers: caller B is refused with %s", theirs.text())
	}
}

// markerOnReplay plays G08. A marker in the trailer counts only as a WARN: it arrives after the response.
func markerOnReplay(t *run) {
	c := t.new("call")
	first := t.first("first", c)
	again := t.send("retry", c)
	if !wantReplay(t, first, again) {
		return
	}
	name := t.rules.marker
	if name == "" {
		recordMarker(t, first, again)
		return
	}
	if isTrue(first, name) {
		t.Failf("the first response (%d) says %s: true, as if it were a replay", first.no, name)
	}
	switch {
	case isTrue(again, name):
		t.Observe(func(o *probe.Observed) { o.Marker = name })
	case marker(again.trailer, name) != "":
		t.Warnf("the replay (%d) has %s in its trailer; it belongs in the header metadata, which arrives "+
			"before the response",
			again.no, name)
	default:
		t.Warnf("the replay (%d) has no marker: no %s: true in its metadata", again.no, name)
	}
}

// isTrue reports whether a marker in the header metadata is true.
func isTrue(a reply, name string) bool { return strings.EqualFold(marker(a.header, name), "true") }

// recordMarker looks for metadata that only a replay has.
func recordMarker(t *run, first, again reply) {
	for name := range again.header {
		if marker(first.header, name) == "" && strings.Contains(name, "repl") {
			t.Observe(func(o *probe.Observed) { o.Marker = name })
			t.Infof("replays have the marker %s in their metadata", name)
			return
		}
	}
	t.Infof("replays are not marked")
}
