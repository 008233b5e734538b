package probe

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
)

func otherBody(t *Trial) {
	r, changed := t.pair()
	first, ok := t.Works("first", r)
	if !ok {
		return
	}
	a := t.Send("another body, the same key", changed)
	t.wantMismatch(first, a)
	if t.WantEffects(1, first, a) && t.Clean() {
		t.otherEnd(first)
	}
}

// otherEnd plays it again with a body that differs far behind its beginning: what compares only what it read first does not see it.
func (t *Trial) otherEnd(earlier Answer) {
	if body := t.Recipe.Request.Body; !t.Recipe.Request.isJSON() || !strings.HasPrefix(strings.TrimSpace(body), "{") {
		return
	}
	r, changed := t.pairOf(padded)
	first := t.Send("first, with 64 KiB of white space in it", r)
	if !first.OK() {
		return // it is too large for the API, which is no matter of keys
	}
	a := t.Send("another body behind the white space, the same key", changed)
	t.wantMismatch(first, a)
	t.WantEffects(2, earlier, first, a)
}

func noPoison(t *Trial) {
	r, changed := t.pair()
	first, ok := t.Works("first", r)
	if !ok {
		return
	}
	other := t.Send("another body, the same key", changed)
	again := t.Send("the first again", r)
	t.wantReplay(first, again)
	t.WantEffects(1, first, other, again)
}

func refusalsNotKept(t *Trial) {
	r, changed := t.pair()
	first, ok := t.Works("first", r)
	if !ok {
		return
	}
	answers := []Answer{first}
	for range 2 {
		answers = append(answers, t.Send("another body, the same key", changed))
	}
	again := t.Send("the first again", r)
	t.wantReplay(first, again)
	t.WantEffects(1, append(answers, again)...)
}

func otherMedia(t *Trial) {
	r := t.Keyed(t.Fresh(), t.NewKey())
	first, ok := t.Works("first", r)
	if !ok {
		return
	}
	a, replayed := t.sameAgain("the same bytes as text/plain", first, r.Set("Content-Type", "text/plain"))
	switch {
	case replayed && t.Rules.Compares:
		t.Warnf("the same bytes as another media type (%d) got the first one's answer", a.No)
	case replayed:
		t.Infof("requests are not compared: another media type (%d) got the first one's answer", a.No)
	}
	t.WantEffects(1, first, a)
}

func otherHeaders(t *Trial) {
	r := t.Keyed(t.Fresh(), t.NewKey())
	first, ok := t.Works("first", r.With("traceparent", t.traceparent()))
	if !ok {
		return
	}
	traced := t.Send("another traceparent", r.With("traceparent", t.traceparent()))
	t.wantReplay(first, traced)
	a, replayed := t.sameAgain("another Accept-Language", first, r.Set("Accept-Language", "tlh"))
	switch {
	case replayed && t.Rules.HeadersCount:
		t.Warnf("a request with another header (%d) got the first one's answer; profile %s should refuse it", a.No, t.Rules.Name)
	case replayed:
		t.Infof("a request with another Accept-Language (%d) is a retry", a.No)
	default:
		t.Infof("a request with another Accept-Language (%d) got %d", a.No, a.Status)
	}
	t.WantEffects(1, first, traced, a)
}

// traceparent is one that nobody has had before (Trace Context, version 00).
func (t *Trial) traceparent() string { return "00-" + t.letters() + "-" + t.letters()[:16] + "-01" }

func errorDocument(t *Trial) {
	r, changed := t.pair()
	if _, ok := t.Works("first", r); !ok {
		return
	}
	a := t.Send("another body, the same key", changed)
	if a.Status < 400 || a.ServerError() {
		t.NAf("there is no refusal to look at (%d): M01 says more", a.No)
		return
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
		if t.resolves(r, link) {
			return
		}
	}
	t.Warnf("no link of the refusal (%d) leads to a page: %s", a.No, strings.Join(links, ", "))
}

// linksOf are where a refusal says that its rules are: its type, and links with rel=describedby.
func linksOf(a Answer) (all []string) {
	var doc struct{ Type string }
	if json.Unmarshal(a.plain(), &doc) == nil && doc.Type != "" && doc.Type != "about:blank" {
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

// resolves reports whether a link leads to a page. Other servers than the target are left alone: their pages are believed to exist.
func (t *Trial) resolves(r Request, link string) bool {
	target := t.Recipe.Target
	path, _, _ := strings.Cut(r.Path, "?")
	to, err := (&url.URL{Scheme: target.Scheme, Host: target.Host, Path: path}).Parse(link)
	if err != nil || to.Host == "" {
		return false
	}
	if to.Host != target.Host {
		return true
	}
	return t.Send("the rules", Request{Method: http.MethodGet, Path: to.RequestURI(), Close: true}.As(t.Recipe.A)).OK()
}
