package cases

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/wire"
)

// otherBody sends another body, and then one that differs far behind its beginning: an API that compares only what it
// has read first does not see that.
func otherBody(t *run) {
	r, changed := pair(t, unchanged)
	first := t.First("first", r)
	a := t.Send("another body, the same key", changed)
	wantMismatch(t, first, a)
	isObject := t.recipe.Request.IsJSON() && strings.HasPrefix(strings.TrimSpace(t.recipe.Request.Body), "{")
	if !t.WantEffects(1, first, a) || !t.Clean() || !isObject {
		return
	}
	r, changed = pair(t, padded)
	late := t.Send("first, with 64 KiB of white space in it", r)
	if !late.OK() {
		return // it is too large for the API, whether it has a key or not
	}
	a = t.Send("another body behind the white space, the same key", changed)
	wantMismatch(t, late, a)
	t.WantEffects(2, first, late, a)
}

func noPoison(t *run)        { wantReplayAfterMismatches(t, 1) }
func refusalsNotKept(t *run) { wantReplayAfterMismatches(t, 2) }

// wantReplayAfterMismatches notes a FAIL unless the first request's retry gets its answer after that many other ones.
func wantReplayAfterMismatches(t *run, mismatches int) {
	r, changed := pair(t, unchanged)
	first := t.First("first", r)
	answers := []wire.Answer{first}
	for range mismatches {
		answers = append(answers, t.Send("another body, the same key", changed))
	}
	again := t.Send("the first again", r)
	wantReplay(t, first, again)
	t.WantEffects(1, append(answers, again)...)
}

func otherMedia(t *run) {
	r := t.New()
	first := t.First("first", r)
	a, replayed := sendSame(t, "the same bytes as text/plain", first, r.Set("Content-Type", "text/plain"))
	switch {
	case replayed && t.rules.Compares:
		t.Warnf("the same bytes as another media type (%d) got the first one's answer", a.No)
	case replayed:
		t.Infof("requests are not compared: another media type (%d) got the first one's answer", a.No)
	}
	t.WantEffects(1, first, a)
}

func otherHeaders(t *run) {
	traceparent := func() string { return "00-" + letters() + "-" + letters()[:16] + "-01" } // Trace Context, version 00
	r := t.New()
	first := t.First("first", r.With("traceparent", traceparent()))
	traced := t.Send("another traceparent", r.With("traceparent", traceparent()))
	wantReplay(t, first, traced)
	a, replayed := sendSame(t, "another Accept-Language", first, r.Set("Accept-Language", "tlh"))
	switch {
	case replayed && t.rules.HeadersCount:
		t.Warnf("a request with another header (%d) got the first one's answer; profile %s should refuse it", a.No,
			t.rules.Name)
	case replayed:
		t.Infof("a request with another Accept-Language (%d) is a retry", a.No)
	default:
		t.Infof("a request with another Accept-Language (%d) got %d", a.No, a.Status)
	}
	t.WantEffects(1, first, traced, a)
}

func errorDocument(t *run) {
	r, changed := pair(t, unchanged)
	t.First("first", r)
	a := t.Send("another body, the same key", changed)
	if a.Status < 400 || a.ServerError() {
		t.Skipf("there is no refusal to judge (%d): see M01", a.No)
	}
	if a.MediaType() != "application/problem+json" {
		t.Warnf("the refusal (%d) is %q, not application/problem+json", a.No, a.MediaType())
	}
	links := linksOf(a)
	if len(links) == 0 {
		t.Warnf("the refusal (%d) has neither a type nor a Link with rel=describedby", a.No)
		return
	}
	for _, link := range links {
		if resolves(t, r, link) {
			return
		}
	}
	t.Warnf("no link of the refusal (%d) leads to a page: %s", a.No, strings.Join(links, ", "))
}

// linksOf are where a refusal says that its rules are: its type, and links with rel=describedby.
func linksOf(a wire.Answer) (all []string) {
	var doc struct{ Type string }
	if json.Unmarshal(a.Plain(), &doc) == nil && doc.Type != "" && doc.Type != "about:blank" {
		all = append(all, doc.Type)
	}
	for _, line := range a.Header.Values("Link") {
		for _, link := range strings.Split(line, ",") {
			to, params, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(link), "<"), ">")
			if strings.Contains(strings.ReplaceAll(params, `"`, ""), "rel=describedby") {
				all = append(all, to)
			}
		}
	}
	return all
}

// resolves reports whether a link leads to a page. Pages of other servers than the target are not fetched: they are
// believed to exist.
func resolves(t *run, r wire.Request, link string) bool {
	target := t.recipe.Target
	path, _, _ := strings.Cut(r.Path, "?")
	to, err := (&url.URL{Scheme: target.Scheme, Host: target.Host, Path: path}).Parse(link)
	if err != nil || to.Host == "" {
		return false
	}
	page := wire.Request{Method: http.MethodGet, Path: to.RequestURI(), Close: true}.As(t.recipe.A)
	return to.Host != target.Host || t.Send("the rules", page).OK()
}

func otherOrder(t *run) {
	r := t.New()
	recordForm(t, "the same members in another order", r, r.WithBody(reversed(r.Body)))
}

func otherSpace(t *run) {
	r := t.New()
	recordForm(t, "the same with other white space", r, r.WithBody(spaced(r.Body)))
}

// recordForm records what becomes of another text that means the same.
func recordForm(t *run, what string, r, other wire.Request) {
	first := t.First("first", r)
	a, replayed := sendSame(t, what, first, other)
	switch {
	case !t.Clean():
	case !t.rules.Compares:
		t.Infof("requests are not compared: %s (%d) got %d", what, a.No, a.Status)
	case replayed:
		t.Infof("%s (%d) is a retry: bodies are compared by what they mean", what, a.No)
		t.Observe(func(o *probe.Observed) { o.Canonical = seen(true) })
	default:
		t.Infof("%s (%d) is refused with %d: bodies are compared as they are", what, a.No, a.Status)
		t.Observe(func(o *probe.Observed) { o.Canonical = seen(false) })
	}
	t.WantEffects(1, first, a)
}

func precision(t *run) {
	wantDifferent(t, "9007199254740993 and 9007199254740992",
		`"retrysafe_probe":9007199254740993`, `"retrysafe_probe":9007199254740992`)
}

func duplicateMember(t *run) {
	wantDifferent(t, "a member alone and behind another of its name",
		`"retrysafe_probe":2`, `"retrysafe_probe":1,"retrysafe_probe":2`)
}

// wantDifferent adds members to the body, and notes a FAIL if others in their place make the same request. A third
// request, which is different by any comparison, shows whether the API compares such members at all.
func wantDifferent(t *run, what, one, two string) {
	plain := t.New()
	with := func(members string) wire.Request { return plain.WithBody(probe.WithMembers(plain.Body, members)) }
	first := t.Send("first, with a member more", with(one))
	if !first.OK() {
		t.Skipf("the API takes no member that it does not know (%d): %d %s", first.No, first.Status, body(first))
	}
	a, replayed := sendSame(t, "with another value", first, with(two))
	t.WantEffects(1, first, a)
	if !replayed {
		return
	}
	b, ignored := sendSame(t, "with a value that is quite another", first, with(`"retrysafe_probe":"other"`))
	if ignored {
		t.Infof("the API does not compare members that it does not know (%d, %d): nothing can be concluded", a.No, b.No)
		return
	}
	t.Failf("%s are taken for the same (%d), though another value is refused (%d)", what, a.No, b.No)
}
