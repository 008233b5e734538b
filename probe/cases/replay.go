package cases

import (
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/wire"
)

// untilHeader says until when a key is kept (Restate). It marks replays where first answers do not have it.
const untilHeader = "Idempotency-Expires"

// markerOnReplay plays B08. It also accepts a header that only replays have, such as Restate's Idempotency-Expires, and
// records it for clients.
func markerOnReplay(t *run) {
	first, again := t.Retried(t.New())
	if !t.rules.Replays {
		t.Skipf("profile %s refuses duplicates, so it has no replays to mark", t.rules.Name)
	}
	if !wantReplay(t, first, again) {
		return
	}
	marker, kept := markerOf(t, again), first.Header.Get(untilHeader) != ""
	if marker == "" && !kept && again.Header.Get(untilHeader) != "" {
		marker = untilHeader
	}
	t.Observe(func(o *probe.Observed) { o.Marker = marker })
	switch {
	case t.rules.MarkerNeeded && marker != t.rules.Marker:
		t.Failf("the replay (%d) has no %s: %s", again.No, t.rules.Marker, t.rules.MarkerValue)
	case t.rules.Marker == "" && marker != "":
		t.Infof("the replay has %s: %s", marker, again.Header.Get(marker))
	case t.rules.Marker != "" && marker == "" && kept:
		t.Warnf("the replay (%d) has no marker: its %s says that the key is kept, but the first answer has "+
			"that header too",
			again.No, untilHeader)
	case t.rules.Marker != "" && marker == "":
		t.Warnf("the replay (%d) has no marker: no %s", again.No, t.rules.Marker)
	}
}

// noMarkerAtFirst plays B09.
func noMarkerAtFirst(t *run) {
	if t.rules.FirstSent != "" {
		t.Skipf("%s says that a request was accepted, not whether it was the first", t.rules.Marker)
	}
	first := t.First("first", t.New())
	if marker := markerOf(t, first); marker != "" {
		t.Failf("the first answer (%d) has %s: %s", first.No, marker, first.Header.Get(marker))
	}
}

// keyEcho plays B10.
func keyEcho(t *run) {
	requireNoBodyKeys(t)
	r := t.New()
	echoed := t.First("first", r).Header.Get(t.keyHeader()) == r.Get(t.keyHeader())
	t.Observe(func(o *probe.Observed) { o.Echo = seen(echoed) })
	if echoed {
		t.Infof("the answer repeats %s", t.keyHeader())
	} else {
		t.Infof("the answer does not repeat %s", t.keyHeader())
	}
}

// sameLocation plays B12.
func sameLocation(t *run) {
	first, again := t.Retried(t.New())
	switch {
	case first.Header.Get("Location") == "":
		t.Skipf("the first answer has no Location")
	case !t.rules.Replays:
		t.Skipf("profile %s refuses duplicates", t.rules.Name)
	case wantReplay(t, first, again) && again.Header.Get("Location") != first.Header.Get("Location"):
		t.Failf("the replay (%d) has Location %q, the first answer %q", again.No, again.Header.Get("Location"),
			first.Header.Get("Location"))
	}
}

// exactBytes plays B11. It uses an amount that a JSON library is likely to rewrite, if the API accepts one.
func exactBytes(t *run) {
	if !t.rules.SameBytes {
		t.Skipf("profile %s promises the same result, not the same bytes", t.rules.Name)
	}
	r, first := oddFirst(t)
	again := t.Send("retry", r)
	same := wantReplay(t, first, again)
	t.Observe(func(o *probe.Observed) { o.SameBytes = seen(same) })
	if same {
		wantSameHeaders(t, first, again)
	}
}

// oddNumbers do not survive a float64, or a JSON library that writes numbers its own way.
var oddNumbers = []string{"9007199254740993", "12.10"}

// oddFirst sends a first request with a number that is easily changed, or an ordinary one if the API refuses such
// numbers.
func oddFirst(t *run) (wire.Request, wire.Answer) {
	if probe.Mentions(t.recipe.Request.Body, "amount") {
		for _, number := range oddNumbers {
			v := t.intents.Next()
			v.Amount = number
			r := t.Keyed(t.From(t.recipe.Request, v), newKey(t))
			if a := t.Send("first, with amount "+number, r); a.OK() {
				return r, a
			}
		}
	}
	r := t.New()
	return r, t.First("first", r)
}

// Headers that describe an answer. A single one has no commas that separate anything.
var (
	singleHeaders = []string{
		"Content-Type", "Content-Encoding", "Location", "Content-Location", "ETag", "Last-Modified", "Expires",
		"Content-Disposition",
	}
	listHeaders      = []string{"Content-Language", "Link", "Vary"}
	essentialHeaders = []string{"Content-Type", "Content-Encoding", "Location"}
)

// wantSameHeaders compares the headers that describe the body: line by line where a header has one value, joined where
// it is a list (RFC 9110 §5.3). Losing a header is a FAIL only if the body cannot be read without it. Another Expires is
// no FAIL: a server in front, such as nginx with its directive of that name, counts it from the moment of each answer.
func wantSameHeaders(t *run, first, again wire.Answer) {
	for _, name := range slices.Concat(singleHeaders, listHeaders) {
		was, is := first.Header.Values(name), again.Header.Values(name)
		same, essential := slices.Equal(was, is), slices.Contains(essentialHeaders, name)
		if slices.Contains(listHeaders, name) {
			same = joined(was) == joined(is)
		}
		switch {
		case same || len(was) == 0 && !essential || name == "Expires" && len(is) == 1:
		case len(is) == 0 && !essential:
			t.Warnf("the replay (%d) has lost %s: %s", again.No, name, strings.Join(was, ", "))
		default:
			t.Failf("the replay (%d) has %s %q, the first answer %q", again.No, name, is, was)
		}
	}
}
