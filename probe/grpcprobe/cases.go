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

// cases are those of package cases that matter most, over gRPC.
func cases(s *session) []probe.Case {
	return []probe.Case{
		{
			ID: "G01", Name: "retry", Severity: probe.Critical, Safe: true,
			Checks: "The same call again gets the first response, and nothing happens twice.",
			Why:    "A client whose deadline ends before it has heard retries, and pays twice.",
			Fix:    "Save the response with the key in one atomic step, and look the key up before the work begins.",
			Source: draft + " §2.6, " + aip, Play: s.play(retry),
		},
		{
			ID: "G02", Name: "another request", Severity: probe.Critical, Safe: true,
			Checks: "Another request under the same key is refused, and nothing happens.",
			Why: "A client that mixes up its keys believes that its second request was carried out, or a key no " +
				"longer protects.",
			Fix: "Save a fingerprint of method and request with the key, and answer FAILED_PRECONDITION if it " +
				"differs: clients do not retry that.",
			Source: draft + " §2.7, " + meaning, Needs: changingRequest(s), Play: s.play(anotherRequest),
		},
		{
			ID: "G03", Name: "two at once", Severity: probe.Critical, Safe: true,
			Checks: "Two calls at once are one effect; each gets the response, or is told that one is outstanding.",
			Why:    "A hedged or impatient client has two calls under way: both look, neither finds a result, both run.",
			Fix: "Claim the key before the work begins, in one atomic step; answer ABORTED with a RetryInfo while " +
				"it runs.",
			Source: draft + " §2.6, " + meaning, Play: s.play(twoAtOnce),
		},
		{
			ID: "G04", Name: "fifty at once", Severity: probe.Critical, Safe: true,
			Checks: "Fifty calls at once, over a connection each, are exactly one effect.",
			Why:    "A race that two calls seldom win is won by fifty.",
			Fix: "Let the store decide: an insert with a unique key, or a conditional write. A look before it does " +
				"not help.",
			Source: draft + " §2.6", Play: s.play(manyAtOnce),
		},
		{
			ID: "G05", Name: "malformed key", Severity: probe.Major, Safe: true,
			Checks: "A key that begins with a quote and does not end with one is refused with INVALID_ARGUMENT; " +
				"nothing happens.",
			Why:    "A client with a bug in how it writes keys believes that it is protected, and is not.",
			Fix:    "Parse the key before anything else, and answer INVALID_ARGUMENT with a BadRequest detail.",
			Source: "RFC 9651 §3.3.3, " + draft + " §2.1", Play: s.play(malformedKey),
		},
		{
			ID: "G06", Name: "another caller", Severity: probe.Critical, Safe: true,
			Checks: "The same key from another caller is another key: no caller sees another's response.",
			Why:    "A caller that guesses or reads a key gets another caller's response, or blocks it.",
			Fix:    "Make the authenticated caller a part of the key.",
			Source: draft + " §5", Needs: twoCallers(s), Play: s.play(anotherCaller),
		},
		{
			ID: "G07", Name: "errors", Severity: probe.Critical,
			Checks: "An error after which the outcome is unknown does not run again; one that says that nothing " +
				"happened is not kept.",
			Why: "An INTERNAL that frees its key lets the retry do it twice; an UNAVAILABLE that is kept cannot be " +
				"retried for as long as keys are kept.",
			Fix: "Keep INTERNAL, UNKNOWN and their like with the key; free it after UNAVAILABLE, " +
				"RESOURCE_EXHAUSTED, UNAUTHENTICATED, PERMISSION_DENIED and ABORTED.",
			Source: draft + " §2.6, " + meaning, Needs: anError(s), Play: s.play(errorsAgain),
		},
		{
			ID: "G08", Name: "marker", Severity: probe.Minor,
			Checks: "A replay says so in its initial metadata, and a first response does not.",
			Why:    "A client cannot tell whether it was the first, and counts its sales wrongly.",
			Fix:    "Set idempotent-replayed: true in the header metadata of replays, and only there.",
			Source: "common practice: idempotent-replayed", Play: s.play(markerOnReplay),
		},
	}
}

func changingRequest(s *session) []probe.Need {
	return s.needs("a generator such as {{amount}} in the request, so that another one can be made", func(r *Recipe) bool {
		return probe.Mentions(r.Call.Request, "")
	})
}

func twoCallers(s *session) []probe.Need {
	return s.needs("credentials a and b: the metadata of two callers",
		func(r *Recipe) bool { return len(r.A) > 0 && len(r.B) > 0 })
}

func anError(s *session) []probe.Need {
	return s.needs("variants.broken: a call that ends with INTERNAL, UNAVAILABLE or their like; or variants.failing, "+
		"one that is "+
		"refused", func(r *Recipe) bool { return r.Broken != nil || r.Failing != nil })
}

func retry(t *run) {
	c := t.new("call")
	first := t.first("first", c)
	again := t.send("retry", c)
	wantReplay(t, first, again)
	t.wantEffects(1, first, again)
}

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
		t.Failf("the other request (%d) was carried out under a key that had been used: it shows %q, the first response %q",
			other.no, t.id(other), t.id(first))
		return
	case other.ok() && t.rules.compares:
		t.Failf("the other request (%d) got the response of the first one, as if it had been carried out", other.no)
	case other.ok():
		t.Infof("another request under the same key gets the first response")
	case len(want) == 0:
		t.Infof("another request under the same key is refused with %s", other.text())
	case right(other, want):
	case nothingHappened(other.code):
		t.Failf("the other request (%d) was refused with %s, which clients retry, and it can never succeed; %s says "+
			"so", other.no,
			nameOf(other.code), want)
	case unclear(other.code):
		t.Failf("the other request (%d) was refused with %s, which leaves open whether it was carried out; %s says "+
			"that it was not",
			other.no, nameOf(other.code), want)
	default:
		t.Warnf("the other request (%d) was refused with %s; %s is the code for it", other.no, nameOf(other.code), want)
	}
	t.wantEffects(1, first)
}

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
		t.Failf("the call (%d) was carried out with the key %s, which is malformed", a.no, malformed)
	case a.ok():
		t.Infof("%s is taken as a key", malformed)
	case !judged:
		t.Infof("%s is refused with %s", malformed, a.text())
	case !right(a, want):
		t.Warnf("the malformed key (%d) was refused with %s; %s is the code for it", a.no, nameOf(a.code), want)
	}
	if !a.ok() {
		t.wantEffects(0, a)
	}
}

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
		t.Failf("caller B (%d) got %s: a caller that uses a key first keeps others from using it", theirs.no, theirs.text())
	default:
		t.Infof("keys are shared by all callers: caller B is refused with %s", theirs.text())
	}
}

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
		t.Warnf("the replay (%d) says %s in its trailer: it belongs into the header metadata, which is there before "+
			"the response",
			again.no, name)
	default:
		t.Warnf("the replay (%d) does not say that it is one: no %s: true in its metadata", again.no, name)
	}
}

func isTrue(a reply, name string) bool { return strings.EqualFold(marker(a.header, name), "true") }

// recordMarker looks for metadata that only a replay has.
func recordMarker(t *run, first, again reply) {
	for name := range again.header {
		if marker(first.header, name) == "" && strings.Contains(name, "repl") {
			t.Observe(func(o *probe.Observed) { o.Marker = name })
			t.Infof("replays have the metadata %s", name)
			return
		}
	}
	t.Infof("replays are not marked")
}
