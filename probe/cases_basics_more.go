package probe

import (
	"slices"
	"strings"
)

// moreBasics: what a first answer and a replay look like.
func moreBasics() []Case {
	return []Case{
		{
			ID: "B05", Name: "no key", Checks: "The same request twice without a key is two effects, or is refused where keys are required.",
			Source: draft + " §2.2", Severity: Major, Why: "Somebody who means it twice gets it once, and nothing says so.",
			Fix: "Do not make a key of the body unless the client has asked for it.", run: noKeyTwice,
		},
		{
			ID: "B06", Name: "key required", Checks: "Where a key is required, a request without one is refused with 400 and a link to the rules.",
			Source: draft + " §2.7; OASIS Repeatable Requests 1.0 §3", Severity: Major, Draft: true, Needs: []Need{aRequiredKey()},
			Why: "A client that forgets its key is not protected, and does not know it.",
			Fix: "Refuse it with 400 before anything is done, and say where the rules are.", run: keyRequired,
		},
		{
			ID: "B07", Name: "name of the header", Checks: "The name of the header means the same in any case.", Source: "RFC 9110 §5.1", Severity: Critical,
			Why: "HTTP/2 sends names in lower case: a retry over another protocol runs again.", Fix: "Compare names of headers without case.",
			run: headerCase,
		},
		{
			ID: "B08", Name: "marker", Checks: "A replay says that it is one.", Source: "Stripe, OASIS Repeatable Requests 1.0 §4; the draft has no marker", Severity: Major,
			Why: "A client cannot tell a replayed failure, which is final, from a fresh one.", Fix: "Send Idempotent-Replayed: true with replays.",
			run: markerOnReplay,
		},
		{
			ID: "B09", Name: "no marker at first", Checks: "A first answer does not say that it is a replay.", Source: "Stripe", Severity: Major,
			Why: "A client takes its new order for an old one.", Fix: "Send the marker with replays only.", run: noMarkerAtFirst,
		},
		{
			ID: "B10", Name: "echo", Checks: "Whether the answer repeats the key is recorded.", Source: "Stripe, Adyen", Severity: Minor, run: keyEcho,
		},
		{
			ID: "B11", Name: "exact bytes", Checks: "A replay has the first answer's bytes, numbers as they were written, and the headers that describe them.",
			Source: draft + " §2.6; RFC 9110 §5.3", Severity: Major, Why: "Signatures, ETags and large numbers are no longer right.",
			Fix: "Save the bytes as they were sent, not as JSON, and header lines one by one.", run: exactBytes,
		},
		{
			ID: "B12", Name: "Location", Checks: "A replay has the Location of the first answer.", Source: "RFC 9110 §10.2.2", Severity: Major,
			Why: "The client does not find what it has created.", Fix: "Save the headers with the answer.", run: sameLocation,
		},
		{
			ID: "B13", Name: "spellings of the path", Checks: "Where the API takes another spelling of the path for the same, keys work there too, and are required there too.",
			Source: "RFC 3986 §6.2; " + always, Severity: Critical, Needs: []Need{needs("a request.path without generators", func(r *Recipe) bool {
				return !places.MatchString(r.Request.Path)
			})},
			Why: "A client that writes one slash too many is not protected, and does not know it.",
			Fix: "Clean the path before it is looked up which rules it has, or refuse what is not clean.", run: otherSpellings,
		},
	}
}

func aRequiredKey() Need {
	return needs("key_required: true, as the API refuses requests without a key", func(r *Recipe) bool {
		return r.KeyRequired || r.Profile == "repeatability"
	})
}

func noKeyTwice(t *Trial) {
	r := t.Fresh()
	one, two := t.Send("without a key", r), t.Send("without a key, again", r)
	refused := func(a Answer) bool {
		return oneOf(a.Status, []int{400}) || len(t.Rules.Missing) > 0 && oneOf(a.Status, t.Rules.Missing)
	}
	switch {
	case one.Status == 0 || two.Status == 0:
		t.Brokenf("a request without a key got no answer: %v%v", errText(one), errText(two))
	case refused(one) && refused(two):
		if t.WantEffects(0, one, two) && !t.Recipe.KeyRequired {
			t.Infof("a request without a key is refused with %d: set key_required in the recipe", one.Status)
		}
	case !one.OK():
		t.Brokenf("the request without a key was refused with %d: %s", one.Status, trimmed(one.Body, 200))
	case !two.OK():
		t.Warnf("the same body again (%d), without a key, was refused with %d: %s", two.No, two.Status, trimmed(two.Body, 200))
	case t.Recipe.Identity.of(one) != "" && t.Recipe.Identity.of(one) == t.Recipe.Identity.of(two):
		t.Warnf("both requests got %q: the body is taken for a key", t.Recipe.Identity.of(one))
	default:
		t.WantEffects(2, one, two)
	}
}

// errText is why there is no answer, if there is none.
func errText(a Answer) string {
	if a.Err == nil {
		return ""
	}
	return a.Err.Error() + " "
}

func keyRequired(t *Trial) {
	r := t.Fresh()
	if t.Rules.FirstSent != "" {
		r = t.Keyed(r, t.NewKey()).Without(t.Rules.FirstSent)
	}
	a := t.Send("without a key", r)
	t.Observe(func(o *Observed) { o.Missing = a.Status })
	switch {
	case a.Status == 0:
		t.Brokenf("the request without a key got no answer: %v", a.Err)
		return
	case a.OK():
		t.Failf("the request without a key (%d) was carried out: %d", a.No, a.Status)
	case len(t.Rules.Missing) > 0 && !oneOf(a.Status, t.Rules.Missing):
		t.Failf("the request without a key (%d) got %d; profile %s says %s", a.No, a.Status, t.Rules.Name, statuses(t.Rules.Missing))
	case a.ServerError():
		t.Failf("the request without a key (%d) got %d: %s", a.No, a.Status, trimmed(a.Body, 200))
	case t.Rules.RefusalValue != "" && !strings.EqualFold(a.Header.Get(t.Rules.Marker), t.Rules.RefusalValue):
		t.Failf("the refusal (%d) has no %s: %s", a.No, t.Rules.Marker, t.Rules.RefusalValue)
	case t.Rules.Problem && !explains(a):
		t.Warnf("the refusal (%d) has no link to the rules: neither a problem type nor Link", a.No)
	}
	t.WantEffects(0, a)
}

// spellings are other ways to write a path: some servers take them for the same.
func spellings(path string) []string {
	path, query, hasQuery := strings.Cut(path, "?")
	path = strings.TrimSuffix(path, "/")
	all := []string{path + "/", "/" + path, "/%2e" + path, "/x/%2e%2e" + path, path + ";v=1", strings.ToUpper(path)}
	for i := range all {
		if hasQuery {
			all[i] += "?" + query
		}
	}
	return all
}

// otherSpellings sends requests to other spellings of the path. One that is not carried out there shows nothing.
func otherSpellings(t *Trial) {
	var made []Answer
	prefix := strings.TrimSuffix(t.Recipe.Target.EscapedPath(), "/")
	for _, path := range spellings(t.Recipe.Request.Path) {
		if t.Recipe.KeyRequired {
			if a := t.Send("without a key, at "+path, t.Fresh().WithPath(prefix+path)); a.OK() && t.Recipe.Identity.of(a) != "" {
				t.Failf("at %s a request without a key (%d) was carried out: %d", path, a.No, a.Status)
				made = append(made, a)
			}
		}
		r := t.Keyed(t.Fresh(), t.NewKey()).WithPath(prefix + path)
		first := t.Send("with a key, at "+path, r)
		if !first.OK() || t.Recipe.Identity.of(first) == "" {
			continue
		}
		made = append(made, first)
		if again := t.Send("retry", r); t.Recipe.Identity.of(first) != t.Recipe.Identity.of(again) && again.OK() {
			t.Failf("at %s keys are not looked at: the retry (%d) shows %q, the first answer (%d) %q", path, again.No, t.Recipe.Identity.of(again), first.No,
				t.Recipe.Identity.of(first))
			return // there are as many effects as there are: one mistake is enough
		}
	}
	if len(made) > 0 && t.Clean() {
		t.WantEffects(len(made), made...)
	}
}

// explains reports whether an error says where the rules are: by the type of its problem details, or by a Link.
func explains(a Answer) bool {
	if strings.Contains(strings.ToLower(a.Header.Get("Link")), "rel=") {
		return true
	}
	kind, err := a.JSON("/type")
	return err == nil && kind != "" && kind != "about:blank"
}

func headerCase(t *Trial) {
	if t.keyInBody() {
		t.NAf("profile %s has the key in the body", t.Rules.Name)
		return
	}
	key := t.NewKey()
	r := t.Keyed(t.Fresh(), key)
	first, ok := t.Works("first", r)
	if !ok {
		return
	}
	name, rest, _ := strings.Cut(t.keyHeader(), "-")
	odd := r.Without(t.keyHeader()).With(strings.ToLower(name)+"-"+strings.ToUpper(rest), r.Get(t.keyHeader()))
	again := t.Send("the header's name in another case", odd)
	t.wantReplay(first, again)
	t.WantEffects(1, first, again)
}

// keyInBody reports whether keys are a member of the body.
func (t *Trial) keyInBody() bool { return t.Rules.Member != "" && t.Recipe.KeyHeader == "" }

// markers are headers that are known to say that an answer is a replay.
var markers = []string{
	"Idempotent-Replayed", "Idempotency-Replayed", "X-Idempotent-Replayed", "X-Idempotency-Replayed", "Idempotency-Replay",
	"X-Idempotency-Cache-Hit", "Request-Idempotency", "Idempotency-Status",
}

// untilHeader says until when a key is kept (Restate). It marks replays where first answers do not have it.
const untilHeader = "Idempotency-Expires"

// markerOf is the header by which an answer says that it is a replay; "": it does not.
func (t *Trial) markerOf(a Answer) string {
	if r := t.Rules; r.Marker != "" && strings.EqualFold(a.Header.Get(r.Marker), r.MarkerValue) {
		return r.Marker
	}
	i := slices.IndexFunc(markers, func(name string) bool {
		value, _, _ := strings.Cut(strings.ToLower(a.Header.Get(name)), ";")
		return slices.Contains([]string{"true", "?1", "1", "yes", "hit", "replayed"}, value)
	})
	if i < 0 {
		return ""
	}
	return markers[i]
}

func markerOnReplay(t *Trial) {
	r := t.Keyed(t.Fresh(), t.NewKey())
	first, ok := t.Works("first", r)
	if !ok {
		return
	}
	again := t.Send("retry", r)
	if !t.Rules.Replays {
		t.NAf("profile %s refuses duplicates: the refusal is the marker", t.Rules.Name)
		return
	}
	if !t.wantReplay(first, again) {
		return
	}
	marker := t.markerOf(again)
	kept := first.Header.Get(untilHeader) != ""
	if marker == "" && !kept && again.Header.Get(untilHeader) != "" {
		marker = untilHeader
	}
	t.Observe(func(o *Observed) { o.Marker = marker })
	switch {
	case t.Rules.MarkerNeeded && marker != t.Rules.Marker:
		t.Failf("the replay (%d) has no %s: %s", again.No, t.Rules.Marker, t.Rules.MarkerValue)
	case t.Rules.Marker == "" && marker != "":
		t.Infof("the replay has %s: %s", marker, again.Header.Get(marker))
	case t.Rules.Marker != "" && marker == "" && kept:
		t.Warnf("the replay (%d) does not say that it is one: %s says that the key is kept, and the first answer has that too", again.No, untilHeader)
	case t.Rules.Marker != "" && marker == "":
		t.Warnf("the replay (%d) does not say that it is one: no %s", again.No, t.Rules.Marker)
	}
}

func noMarkerAtFirst(t *Trial) {
	if t.Rules.FirstSent != "" {
		t.NAf("%s says that a request was taken, not whether it was the first", t.Rules.Marker)
		return
	}
	first, ok := t.Works("first", t.Keyed(t.Fresh(), t.NewKey()))
	if !ok {
		return
	}
	if marker := t.markerOf(first); marker != "" {
		t.Failf("the first answer (%d) has %s: %s", first.No, marker, first.Header.Get(marker))
	}
}

func keyEcho(t *Trial) {
	if t.keyInBody() {
		t.NAf("profile %s has the key in the body", t.Rules.Name)
		return
	}
	r := t.Keyed(t.Fresh(), t.NewKey())
	first, ok := t.Works("first", r)
	if !ok {
		return
	}
	echoed := first.Header.Get(t.keyHeader()) == r.Get(t.keyHeader())
	t.Observe(func(o *Observed) { o.Echo = seen(echoed) })
	if echoed {
		t.Infof("the answer repeats %s", t.keyHeader())
	} else {
		t.Infof("the answer does not repeat %s", t.keyHeader())
	}
}

func sameLocation(t *Trial) {
	r := t.Keyed(t.Fresh(), t.NewKey())
	first, ok := t.Works("first", r)
	if !ok {
		return
	}
	again := t.Send("retry", r)
	switch {
	case first.Header.Get("Location") == "":
		t.NAf("the first answer has no Location")
	case !t.Rules.Replays:
		t.NAf("profile %s refuses duplicates", t.Rules.Name)
	case t.wantReplay(first, again) && again.Header.Get("Location") != first.Header.Get("Location"):
		t.Failf("the replay (%d) has Location %q, the first answer %q", again.No, again.Header.Get("Location"), first.Header.Get("Location"))
	}
}
