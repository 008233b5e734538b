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
			Checks: "A request with a new key succeeds and has one effect.",
			Why:    "Clients that send a key are not served, and no other case can be judged.",
			Fix: "Accept requests that carry a key. Compare the request in this report with the one that the API " +
				"expects.",
			Source: draft + " §2.6", Play: s.play(firstRequest),
		},
		{
			ID: "B02", Name: "retry", Severity: probe.Critical, Safe: true,
			Checks: "A retry (the same request with the same key) gets the first answer, and the operation does " +
				"not run again.",
			Why: "A client that did not receive the answer retries, and the customer pays twice.",
			Fix: "Look the key up before the operation runs. Save the answer together with the key, in one " +
				"atomic step.",
			Source: draft + " §2.6", Play: s.play(retry),
		},
		{
			ID: "B03", Name: "ten retries", Severity: probe.Critical, Safe: true,
			Checks: "Ten retries get the first answer, and the operation runs once.",
			Why: "Clients, proxies and queues each retry, so one request can arrive many times, and the customer " +
				"pays each time.",
			Fix:    "Decide by the key alone. Do not count or limit how often a key is used.",
			Source: always, Play: s.play(tenRetries),
		},
		{
			ID: "B04", Name: "two keys", Severity: probe.Major, Safe: true,
			Checks: "The same body with two different keys runs twice.",
			Why:    "A customer who buys the same item twice on purpose gets it once.",
			Fix:    "Identify an operation by its key, not by its body.",
			Source: always, Play: s.play(twoKeys),
		},
		{
			ID: "B05", Name: "no key", Severity: probe.Major,
			Checks: "The same request sent twice without a key runs twice, or is refused if the API requires keys.",
			Why:    "A client that wants two operations gets one, and no answer tells it so.",
			Fix:    "Do not derive a key from the body unless the client asked for it.",
			Source: draft + " §2.2", Play: s.play(noKeyTwice),
		},
		{
			ID: "B06", Name: "key required", Severity: probe.Major, Draft: true,
			Checks: "If the API requires a key, a request without one is refused with 400 and a link to the " +
				"documentation.",
			Why: "A client that forgets its key has no protection against duplicates, and is not told.",
			Fix: "Answer 400 before the operation runs. Link to the documentation by the type of a problem " +
				"document or by a Link header.",
			Source: draft + " §2.7; OASIS Repeatable Requests 1.0 §3",
			Needs:  s.needs(requiredKey), Play: s.play(keyRequired),
		},
		{
			ID: "B07", Name: "header name case", Severity: probe.Critical,
			Checks: "The server recognises the key's header, whether its name is written in upper or lower case.",
			Why:    "HTTP/2 sends header names in lower case. A retry over another protocol version runs again.",
			Fix:    "Compare header names without regard to case.",
			Source: "RFC 9110 §5.1", Play: s.play(headerCase),
		},
		{
			ID: "B08", Name: "marker", Severity: probe.Major,
			Checks: "A replay has a header that marks it as a replay.",
			Why:    "A client cannot tell a replayed failure, which is final, from a new one.",
			Fix:    "Send your profile's marker with every replay, such as Idempotent-Replayed: true.",
			Source: "Stripe, OASIS Repeatable Requests 1.0 §4; the draft has no marker", Play: s.play(markerOnReplay),
		},
		{
			ID: "B09", Name: "unmarked first answer", Severity: probe.Major,
			Checks: "The first answer to a key is not marked as a replay.",
			Why:    "A client takes its new order for an old one.",
			Fix:    "Send the marker with replays only.",
			Source: "Stripe", Play: s.play(noMarkerAtFirst),
		},
		{
			ID: "B10", Name: "echo", Severity: probe.Minor,
			Checks: "Recorded: whether the answer repeats the key in its header.",
			Source: "Stripe, Adyen", Play: s.play(keyEcho),
		},
		{
			ID: "B11", Name: "exact bytes", Severity: probe.Major,
			Checks: "A replay has the bytes of the first answer, numbers as they were written, and the headers " +
				"that describe the body.",
			Why:    "Signatures, ETags and large numbers in the replay differ from those of the first answer.",
			Fix:    "Save the body as bytes, not as parsed JSON. Save each header line by itself.",
			Source: draft + " §2.6; RFC 9110 §5.3", Play: s.play(exactBytes),
		},
		{
			ID: "B12", Name: "Location", Severity: probe.Major,
			Checks: "A replay has the Location header of the first answer.",
			Why:    "A client that retried cannot find what it created.",
			Fix:    "Save the Location header with the answer.",
			Source: "RFC 9110 §10.2.2", Play: s.play(sameLocation),
		},
		{
			ID: "B13", Name: "path spellings", Severity: probe.Critical,
			Checks: "Keys work, and are required, at every spelling of the path that the API accepts, such as " +
				"one with a final slash.",
			Why: "A client that writes one slash too many has no protection: its retry runs again.",
			Fix: "Normalise the path before you look up which rules apply to it, or refuse paths that are not in " +
				"normal form.",
			Source: "RFC 3986 §6.2; " + always, Needs: s.needs(plainPath), Play: s.play(otherSpellings),
		},
	}
}

// firstRequest plays B01. If the request with a key is refused, it tries the same request without one: the API is at
// fault only if that succeeds. Otherwise the recipe is wrong, and the case ends as BROKEN with advice on what to write.
func firstRequest(t *run) {
	r := t.Fresh()
	a := t.Send("first", t.Keyed(r, newKey(t)))
	if a.Status == 0 {
		t.Brokenf("the target did not answer the first request: %v", a.Err)
	}
	if a.OK() {
		if t.id(a) == "" {
			t.Brokenf("the answer does not say what was created: the recipe's identity finds nothing in it%s", advice(t, a))
		}
		t.WantEffects(1, a)
		return
	}
	without := t.Send("without a key", r)
	switch to := a.Header.Get("Location"); {
	case without.OK():
		t.Failf("with a key the request (%d) got %d, without one (%d) it ran: %s", a.No, a.Status, without.No,
			wire.Shorten(a.Body, 200))
	case a.Status >= 300 && a.Status < 400 && to != "":
		t.Brokenf("the target redirects the first request (%d) to %s: write that as the target in the recipe", a.Status,
			wire.Shorten([]byte(to), 200))
	default:
		t.Brokenf("the target refused the first request with %d: %s", a.Status, wire.Shorten(a.Body, 200))
	}
}

// shownMembers is how many members of an answer are named.
const shownMembers = 8

// advice suggests where else in an answer the identity may be. It returns "" if it finds nothing to suggest. Most first
// recipes fail here, so the message names the members that the answer has.
func advice(t *run, a wire.Answer) string {
	var body map[string]json.RawMessage
	switch {
	case t.recipe.Identity.Header == "" && a.Header.Get("Location") != "":
		return "; it has a Location: write identity: {header: Location}"
	case a.Coding() != "" && a.Coding() != "gzip":
		return "; its body has Content-Encoding " + a.Coding() + ", which the probe did not ask for and cannot decode"
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
		": write identity: {pointer: …} with a member that is different for each created thing"
}

// retry plays B02.
func retry(t *run) { wantOneEffect(t, t.New()) }

// tenRetries plays B03. It stops at the first retry that is not a replay: ten findings with one cause say no more than
// one.
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

// twoKeys plays B04: the two requests have the same body, so only the key tells them apart, and their set-up if the
// recipe has one.
func twoKeys(t *run) {
	alike := t.alike()
	one := t.First("one key", t.Keyed(alike(), newKey(t)))
	two := t.First("another key", t.Keyed(alike(), newKey(t)))
	t.WantEffects(2, one, two)
}
