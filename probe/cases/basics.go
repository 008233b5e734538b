package cases

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/wire"
)

const (
	draft  = "draft-ietf-httpapi-idempotency-key-header-07"
	always = "at most once, one answer"
)

// basics: a key runs once, and each retry gets the first answer.
func basics(s *session) []probe.Case {
	return []probe.Case{
		{
			ID: "B01", Name: "first request", Severity: probe.Critical, Safe: true,
			Checks: "A request with a new key is carried out.",
			Why:    "Nothing else can be looked at.",
			Fix:    "Look at the answer: does the recipe send what the API wants?",
			Source: draft + " §2.6", Play: s.play(firstRequest),
		},
		{
			ID: "B02", Name: "retry", Severity: probe.Critical, Safe: true,
			Checks: "The same request again gets the first answer, and nothing happens twice.",
			Why:    "A client that has not heard the answer retries, and pays twice.",
			Fix:    "Save the answer with the key in one atomic step, and look the key up before the work begins.",
			Source: draft + " §2.6", Play: s.play(retry),
		},
		{
			ID: "B03", Name: "ten retries", Severity: probe.Critical, Safe: true,
			Checks: "However often it is retried, it is one effect.",
			Why:    "Clients, proxies and queues retry more than once.",
			Fix:    "Do not count attempts: the key alone decides.",
			Source: always, Play: s.play(tenRetries),
		},
		{
			ID: "B04", Name: "two keys", Severity: probe.Major, Safe: true,
			Checks: "Two keys are two effects, though the bodies are the same.",
			Why:    "A customer who buys the same thing twice gets it once.",
			Fix:    "Tell requests apart by the key, not by the body.",
			Source: always, Play: s.play(twoKeys),
		},
		{
			ID: "B05", Name: "no key", Severity: probe.Major,
			Checks: "The same request twice without a key is two effects, or is refused where keys are required.",
			Why:    "A client that means two requests gets one, and no answer says so.",
			Fix:    "Do not make a key of the body unless the client has asked for it.",
			Source: draft + " §2.2", Play: s.play(noKeyTwice),
		},
		{
			ID: "B06", Name: "key required", Severity: probe.Major, Draft: true,
			Checks: "Where a key is required, a request without one is refused with 400 and a link to the rules.",
			Why:    "A client that forgets its key is not protected, and does not know it.",
			Fix:    "Refuse it with 400 before anything is done, and say where the rules are.",
			Source: draft + " §2.7; OASIS Repeatable Requests 1.0 §3",
			Needs:  s.needs(requiredKey), Play: s.play(keyRequired),
		},
		{
			ID: "B07", Name: "name of the header", Severity: probe.Critical,
			Checks: "The name of the header means the same in any case.",
			Why:    "HTTP/2 sends names in lower case: a retry over another protocol runs again.",
			Fix:    "Compare names of headers without case.",
			Source: "RFC 9110 §5.1", Play: s.play(headerCase),
		},
		{
			ID: "B08", Name: "marker", Severity: probe.Major,
			Checks: "A replay says that it is one.",
			Why:    "A client cannot tell a replayed failure, which is final, from a fresh one.",
			Fix:    "Send Idempotent-Replayed: true with replays.",
			Source: "Stripe, OASIS Repeatable Requests 1.0 §4; the draft has no marker", Play: s.play(markerOnReplay),
		},
		{
			ID: "B09", Name: "no marker at first", Severity: probe.Major,
			Checks: "A first answer does not say that it is a replay.",
			Why:    "A client takes its new order for an old one.",
			Fix:    "Send the marker with replays only.",
			Source: "Stripe", Play: s.play(noMarkerAtFirst),
		},
		{
			ID: "B10", Name: "echo", Severity: probe.Minor,
			Checks: "Whether the answer repeats the key is recorded.",
			Source: "Stripe, Adyen", Play: s.play(keyEcho),
		},
		{
			ID: "B11", Name: "exact bytes", Severity: probe.Major,
			Checks: "A replay has the first answer's bytes, numbers as they were written, and the headers that " +
				"describe them.",
			Why:    "Signatures, ETags and large numbers are no longer right.",
			Fix:    "Save the bytes as they were sent, not as JSON, and header lines one by one.",
			Source: draft + " §2.6; RFC 9110 §5.3", Play: s.play(exactBytes),
		},
		{
			ID: "B12", Name: "Location", Severity: probe.Major,
			Checks: "A replay has the Location of the first answer.",
			Why:    "The client does not find what it has created.",
			Fix:    "Save the headers with the answer.",
			Source: "RFC 9110 §10.2.2", Play: s.play(sameLocation),
		},
		{
			ID: "B13", Name: "spellings of the path", Severity: probe.Critical,
			Checks: "Where the API takes another spelling of the path for the same, keys work there too, and are " +
				"required there too.",
			Why:    "A client that writes one slash too many is not protected, and does not know it.",
			Fix:    "Clean the path before it is looked up which rules it has, or refuse what is not clean.",
			Source: "RFC 3986 §6.2; " + always, Needs: s.needs(plainPath), Play: s.play(otherSpellings),
		},
	}
}

func firstRequest(t *run) {
	r := t.Fresh()
	a := t.Send("first", t.Keyed(r, probe.NewUUID()))
	if a.Status == 0 {
		t.Brokenf("the target did not answer the first request: %v", a.Err)
	}
	if a.OK() {
		if t.id(a) == "" {
			t.Brokenf("the answer does not say what was created: identity finds nothing in it%s", advice(t, a))
		}
		t.WantEffects(1, a)
		return
	}
	without := t.Send("without a key", r)
	switch to := a.Header.Get("Location"); {
	case without.OK():
		t.Failf("with a key the request (%d) got %d, without one (%d) it is carried out: %s", a.No, a.Status, without.No,
			wire.Shorten(a.Body, 200))
	case a.Status >= 300 && a.Status < 400 && to != "":
		t.Brokenf("the target sends the first request elsewhere (%d), to %s: write that as the target", a.Status,
			wire.Shorten([]byte(to), 200))
	default:
		t.Brokenf("the target refused the first request with %d: %s", a.Status, wire.Shorten(a.Body, 200))
	}
}

// shownMembers is how many members of an answer are named.
const shownMembers = 8

// advice says where else in an answer the identity may be; "" if there is no advice.
func advice(t *run, a wire.Answer) string {
	var body map[string]json.RawMessage
	switch {
	case t.recipe.Identity.Header == "" && a.Header.Get("Location") != "":
		return "; it has a Location: write identity: {header: Location}"
	case a.Coding() != "" && a.Coding() != "gzip":
		return "; its body is coded (" + a.Coding() + "), which the probe cannot undo and did not ask for"
	case json.Unmarshal(a.Plain(), &body) != nil || len(body) == 0:
		return ""
	}
	members := slices.Sorted(maps.Keys(body))
	for n, name := range members {
		members[n] = "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
	}
	if len(members) > shownMembers {
		members = append(members[:shownMembers], "…")
	}
	return "; its body has " + strings.Join(members, ", ") +
		": write identity: {pointer: …} with the member that is different for each thing"
}

func retry(t *run) { wantOneEffect(t, t.New()) }

func tenRetries(t *run) {
	r := t.New()
	answers := []wire.Answer{t.First("first", r)}
	for range 10 {
		a := t.Send("retry", r)
		if !wantReplay(t, answers[0], a) {
			break
		}
		answers = append(answers, a)
	}
	t.WantEffects(1, answers...)
}

func twoKeys(t *run) {
	r := t.Fresh()
	one := t.First("one key", t.Keyed(r, probe.NewUUID()))
	two := t.First("another key", t.Keyed(r, probe.NewUUID()))
	t.WantEffects(2, one, two)
}
