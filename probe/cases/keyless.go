package cases

import (
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/wire"
)

// noKeyTwice plays B05. An API may refuse the second request for a reason of its own, such as a duplicate order number,
// so that is a WARN and no FAIL.
func noKeyTwice(t *run) {
	alike := t.alike()
	one, two := t.Send("without a key", alike()), t.Send("without a key, again", alike())
	refused := func(a wire.Answer) bool { return a.Status == 400 || slices.Contains(t.rules.Missing, a.Status) }
	switch {
	case one.Status == 0 || two.Status == 0:
		t.Brokenf("a request without a key got no answer: %s%s", body(one), body(two))
	case refused(one) && refused(two):
		if t.WantEffects(0, one, two) && !t.recipe.KeyRequired {
			t.Infof("a request without a key is refused with %d: set key_required: true in the recipe", one.Status)
		}
	case !one.OK():
		t.Brokenf("the request without a key was refused with %d: %s", one.Status, body(one))
	case !two.OK():
		t.Warnf("the same body without a key was refused the second time (%d) with %d: %s", two.No, two.Status, body(two))
	case t.id(one) != "" && t.id(one) == t.id(two):
		t.Warnf("both requests got %q: the API uses the body as a key", t.id(one))
	default:
		t.WantEffects(2, one, two)
	}
}

// keyRequired plays B06. In profiles with a first-sent date, a request without either header is allowed, so only the
// date is left out.
func keyRequired(t *run) {
	r := t.Fresh()
	if t.rules.FirstSent != "" {
		r = t.Keyed(r, newKey(t)).Without(t.rules.FirstSent)
	}
	a := t.Send("without a key", r)
	t.Observe(func(o *probe.Observed) { o.Missing = a.Status })
	switch {
	case a.Status == 0:
		t.Brokenf("the request without a key got no answer: %v", a.Err)
	case a.OK():
		t.Failf("the request without a key (%d) ran: %d", a.No, a.Status)
	case len(t.rules.Missing) > 0 && !slices.Contains(t.rules.Missing, a.Status):
		t.Failf("the request without a key (%d) got %d; profile %s says %s", a.No, a.Status, t.rules.Name,
			statuses(t.rules.Missing))
	case a.ServerError():
		t.Failf("the request without a key (%d) got %d: %s", a.No, a.Status, body(a))
	case !saysNothingDone(t, a):
		t.Failf("the refusal (%d) has no %s: %s", a.No, t.rules.Marker, t.rules.RefusalValue)
	case t.rules.Problem && !linksToRules(a):
		t.Warnf("the refusal (%d) has no link to the documentation: neither a problem type nor a Link header", a.No)
	}
	t.WantEffects(0, a)
}

// linksToRules reports whether an error says where the rules are: by the type of its problem details, or by a Link.
func linksToRules(a wire.Answer) bool {
	kind, err := a.JSON("/type")
	return strings.Contains(strings.ToLower(a.Header.Get("Link")), "rel=") || err == nil && kind != "" &&
		kind != "about:blank"
}

// headerCase plays B07 with a name such as idempotency-KEY. HTTP/1.1 keeps the case that the client has sent, so
// servers that compare bytes show themselves.
func headerCase(t *run) {
	requireNoBodyKeys(t)
	r := t.New()
	first := t.First("first", r)
	name, rest, _ := strings.Cut(t.keyHeader(), "-")
	odd := r.Without(t.keyHeader()).With(strings.ToLower(name)+"-"+strings.ToUpper(rest), r.Get(t.keyHeader()))
	again := t.Send("the header's name in another case", odd)
	wantReplay(t, first, again)
	t.WantEffects(1, first, again)
}

// otherSpellings plays B13. Some routers accept several spellings of a path and some answer 404. Only a spelling at
// which the request runs says anything, so all others are ignored.
func otherSpellings(t *run) {
	var made []wire.Answer
	prefix := strings.TrimSuffix(t.recipe.Target.EscapedPath(), "/")
	for _, path := range spellings(t.recipe.Request.Path) {
		if t.recipe.KeyRequired {
			a := t.Send("without a key, at "+path, t.Fresh().WithPath(prefix+path))
			if a.OK() && t.id(a) != "" {
				t.Failf("at %s a request without a key (%d) ran: %d", path, a.No, a.Status)
				made = append(made, a)
			}
		}
		r := t.Keyed(t.Fresh().WithPath(prefix+path), newKey(t))
		first := t.Send("with a key, at "+path, r)
		if !first.OK() || t.id(first) == "" {
			continue
		}
		made = append(made, first)
		if again := t.Send("retry", r); again.OK() && t.id(first) != t.id(again) {
			t.Failf("at %s the API ignores keys: the retry (%d) shows %q, the first answer (%d) %q", path, again.No, t.id(again),
				first.No, t.id(first))
			return // the number of effects is not known: one mistake is enough
		}
	}
	if len(made) > 0 && t.Clean() {
		t.WantEffects(len(made), made...)
	}
}

// spellings returns other ways to write a path that some servers take for the same: a final or doubled slash, dot
// segments in percent encoding (RFC 3986 §6.2.2), a path parameter, and upper case.
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
