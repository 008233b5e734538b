package cases

import (
	"slices"
	"strconv"
	"strings"

	"github.com/retrysafe/retrysafe/probe/wire"
)

// wantReplay notes a FAIL unless a retry got the first answer again. What that means depends on the profile: the same
// bytes, the same identity, or a refusal where every duplicate is refused.
func wantReplay(t *run, first, again wire.Answer) bool {
	switch {
	case again.Status == 0:
		t.Failf("the retry (%d) got no answer: %v", again.No, again.Err)
	case !t.rules.Replays && !slices.Contains(t.rules.Mismatch, again.Status):
		t.Failf("the retry (%d) got %d; profile %s refuses it with %s", again.No, again.Status, t.rules.Name,
			statuses(t.rules.Mismatch))
	case !t.rules.Replays:
		return true
	case !again.OK():
		t.Failf("the retry (%d) got %d, not the first answer: %s", again.No, again.Status, wire.Shorten(again.Body, 200))
	case t.rules.SameBytes && !first.Same(again):
		t.Failf("the retry (%d) got another answer: %s", again.No, difference(first, again))
	case t.id(first) != t.id(again):
		t.Failf("the retry (%d) shows %q, the first answer %q: the operation ran again", again.No, t.id(again), t.id(first))
	default:
		return true
	}
	return false
}

// wantOneEffect sends a request and its retry. It notes a FAIL unless the retry gets a replay and there is one effect.
func wantOneEffect(t *run, r wire.Request) {
	first, again := t.Retried(r)
	wantReplay(t, first, again)
	t.WantEffects(1, first, again)
}

// wantAnswer notes a FAIL if there is no answer or if it is a server error. It reports whether the answer can be
// judged.
func wantAnswer(t *run, what string, a wire.Answer) bool {
	switch {
	case a.Status == 0:
		t.Failf("%s (%d) got no answer: %v", what, a.No, a.Err)
	case a.ServerError():
		t.Failf("%s (%d) got %d, a server error: %s", what, a.No, a.Status, wire.Shorten(a.Body, 200))
	default:
		return true
	}
	return false
}

// wantRefusal notes a FAIL unless a request was refused with one of the statuses, as the profile has it.
func wantRefusal(t *run, what string, a wire.Answer, want []int) bool {
	switch {
	case a.Status == 0:
		t.Failf("%s (%d) got no answer: %v", what, a.No, a.Err)
	case a.OK():
		t.Failf("%s (%d) ran: %d, want %s", what, a.No, a.Status, statuses(want))
	case !slices.Contains(want, a.Status):
		t.Failf("%s (%d) got %d, want %s", what, a.No, a.Status, statuses(want))
	case !saysNothingDone(t, a):
		t.Failf("%s (%d) got %d without %s: %s", what, a.No, a.Status, t.rules.Marker, t.rules.RefusalValue)
	default:
		return true
	}
	return false
}

// saysNothingDone reports whether a refusal has the header by which the profile says so; true if the profile has none.
func saysNothingDone(t *run, a wire.Answer) bool {
	return t.rules.RefusalValue == "" || strings.EqualFold(a.Header.Get(t.rules.Marker), t.rules.RefusalValue)
}

// busy reports an answer that says that the first request is still being carried out.
func busy(t *run, a wire.Answer) bool {
	if refusedDuplicate(t, a) {
		return false
	}
	if len(t.rules.InFlight) > 0 {
		return slices.Contains(t.rules.InFlight, a.Status)
	}
	return slices.Contains([]int{409, 423, 425, 429}, a.Status)
}

// refusedDuplicate reports the answer to every duplicate where a profile replays nothing.
func refusedDuplicate(t *run, a wire.Answer) bool {
	return !t.rules.Replays && slices.Contains(t.rules.Mismatch, a.Status)
}

// taken reports an answer that says that the key is in use, where there is no result yet.
func taken(t *run, a wire.Answer) bool { return busy(t, a) || refusedDuplicate(t, a) }

// rateLimited reports an answer that says that there were too many requests, of any keys.
func rateLimited(t *run, a wire.Answer) bool { return a.Status == 429 && !busy(t, a) }

// shows reports whether an answer is a success that shows what another one does.
func shows(t *run, first, a wire.Answer) bool {
	id := t.id(first)
	return a.OK() && (id != "" && id == t.id(a) || len(a.Body) > 0 && first.Same(a))
}

// isReplay reports whether an answer is that to a retry of the first request.
func isReplay(t *run, first, a wire.Answer) bool {
	if !t.rules.Replays {
		return slices.Contains(t.rules.Mismatch, a.Status)
	}
	return shows(t, first, a)
}

// markers are headers that are known to say that an answer is a replay.
var markers = []string{
	"Idempotent-Replayed", "Idempotency-Replayed", "X-Idempotent-Replayed", "X-Idempotency-Replayed", "Idempotency-Replay",
	"X-Idempotency-Cache-Hit", "Request-Idempotency", "Idempotency-Status",
}

// markerOf returns the name of the header by which an answer says that it is a replay, or "" if there is none.
func markerOf(t *run, a wire.Answer) string {
	if r := t.rules; r.Marker != "" && strings.EqualFold(a.Header.Get(r.Marker), r.MarkerValue) {
		return r.Marker
	}
	for _, name := range markers {
		value, _, _ := strings.Cut(strings.ToLower(a.Header.Get(name)), ";")
		if slices.Contains([]string{"true", "?1", "1", "yes", "hit", "replayed"}, value) {
			return name
		}
	}
	return ""
}

// marked reports whether an answer says of itself that it is a replay. A marker that first answers have too says
// nothing.
func marked(t *run, a wire.Answer) bool { return t.rules.RefusalValue == "" && markerOf(t, a) != "" }

// difference says where two answers differ, for findings.
func difference(a, b wire.Answer) string {
	if a.Status != b.Status {
		return "status " + itoa(b.Status) + " instead of " + itoa(a.Status)
	}
	return "body " + wire.Shorten(b.Body, 120) + " instead of " + wire.Shorten(a.Body, 120)
}

// statuses lists statuses for findings.
func statuses(all []int) string {
	if len(all) == 0 {
		return "any status"
	}
	words := make([]string, len(all))
	for i, s := range all {
		words[i] = itoa(s)
	}
	return strings.Join(words, " or ")
}

// body returns an answer's body for findings, or why there is no answer.
func body(a wire.Answer) string {
	if a.Err != nil {
		return a.Err.Error() + " " + wire.Shorten(a.Body, 200)
	}
	return wire.Shorten(a.Body, 200)
}

// joined returns the lines of a list header as one line without white space.
func joined(lines []string) string {
	return strings.Join(strings.Fields(strings.Join(lines, ",")), "")
}

// itoa formats a number.
func itoa(n int) string { return strconv.Itoa(n) }

// seen returns a pointer to b, as the observed profile has it: nil there means that nothing was seen.
func seen(b bool) *bool { return &b }
