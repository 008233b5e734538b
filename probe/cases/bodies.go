package cases

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/wire"
)

// otherBody plays M01. It sends another body, and then one that differs only after 64 KiB: an API that hashes the
// beginning of a body does not see that difference. The padding is white space in JSON, so that both bodies stay valid.
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

// noPoison plays M02: one mismatch must not change the record.
func noPoison(t *run) { wantReplayAfterMismatches(t, 1) }

// refusalsNotKept plays M13. A layer that saves its own refusal may do so only for the second mismatch, which finds the
// record of the first.
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

// otherMedia plays M06. Replaying the first answer is only a WARN, because the draft leaves open what a fingerprint
// contains (§2.4).
func otherMedia(t *run) {
	r := t.New()
	first := t.First("first", r)
	a, replayed := sendSame(t, "the same bytes as text/plain", first, r.Set("Content-Type", "text/plain"))
	switch {
	case replayed && t.rules.Compares:
		t.Warnf("the same bytes with another media type (%d) got the first answer", a.No)
	case replayed:
		t.Infof("the API does not compare requests: another media type (%d) got the first answer", a.No)
	}
	t.WantEffects(1, first, a)
}

// otherHeaders plays M11. A retry through a tracing library has another traceparent (Trace Context §3), so that header
// must not count. Whether Accept-Language counts is recorded, and judged only where the profile says so.
func otherHeaders(t *run) {
	traceparent := func() string { return "00-" + letters() + "-" + letters()[:16] + "-01" } // Trace Context, version 00
	r := t.New()
	first := t.First("first", r.With("traceparent", traceparent()))
	traced := t.Send("another traceparent", r.With("traceparent", traceparent()))
	wantReplay(t, first, traced)
	a, replayed := sendSame(t, "another Accept-Language", first, r.Set("Accept-Language", "tlh"))
	switch {
	case replayed && t.rules.HeadersCount:
		t.Warnf("a request with another header (%d) got the first answer; in profile %s it should be refused", a.No,
			t.rules.Name)
	case replayed:
		t.Infof("a request with another Accept-Language (%d) counts as a retry", a.No)
	default:
		t.Infof("a request with another Accept-Language (%d) got %d", a.No, a.Status)
	}
	t.WantEffects(1, first, traced, a)
}

// errorDocument plays M12. The draft (§2.7) asks for a problem document or a link, so both are accepted.
func errorDocument(t *run) {
	r, changed := pair(t, unchanged)
	t.First("first", r)
	a := t.Send("another body, the same key", changed)
	if a.Status < 400 || a.ServerError() {
		t.Skipf("the other request (%d) was not refused, so there is no refusal to judge: see M01", a.No)
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
	t.Warnf("no link in the refusal (%d) leads to a page: %s", a.No, strings.Join(links, ", "))
}

// linksOf returns where a refusal says that its documentation is: its problem type, and links with rel=describedby. The
// type about:blank means that there is none (RFC 9457 §4.2.1).
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

// resolves reports whether a link leads to a page. Pages of other servers than the target are not fetched: of those, the
// probe asks only for the policy page that a recipe names. They are assumed to exist.
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

// otherOrder plays M07.
func otherOrder(t *run) {
	r := t.New()
	recordForm(t, "the same members in another order", r, r.WithBody(reversed(r.Body)))
}

// otherSpace plays M08.
func otherSpace(t *run) {
	r := t.New()
	recordForm(t, "the same with other white space", r, r.WithBody(spaced(r.Body)))
}

// recordForm sends another text with the same meaning. Comparing bytes and comparing meaning are both right, so it
// records which of them the API does. Running again is a FAIL.
func recordForm(t *run, what string, r, other wire.Request) {
	first := t.First("first", r)
	a, replayed := sendSame(t, what, first, other)
	switch {
	case !t.Clean():
	case !t.rules.Compares:
		t.Infof("the API does not compare requests: %s (%d) got %d", what, a.No, a.Status)
	case replayed:
		t.Infof("%s (%d) counts as a retry: the API compares the meaning of bodies", what, a.No)
		t.Observe(func(o *probe.Observed) { o.Canonical = seen(true) })
	default:
		t.Infof("%s (%d) is refused with %d: the API compares the bytes of bodies", what, a.No, a.Status)
		t.Observe(func(o *probe.Observed) { o.Canonical = seen(false) })
	}
	t.WantEffects(1, first, a)
}

// precision plays M09. 2^53 is the last integer up to which a float64 is exact: both numbers become 9007199254740992 in
// a parser that uses floating point (RFC 8259 §6).
func precision(t *run) {
	if t.rules.Doubles {
		t.Skipf("profile %s compares numbers as doubles (RFC 8785), and both are the same one", t.rules.Name)
	}
	wantDifferent(t, "9007199254740993 and 9007199254740992",
		`"retrysafe_probe":9007199254740993`, `"retrysafe_probe":9007199254740992`)
}

// duplicateMember plays M10. Parsers differ in which of two members with one name they take (RFC 8259 §4).
func duplicateMember(t *run) {
	wantDifferent(t, "a member alone and the same member after another one of its name",
		`"retrysafe_probe":2`, `"retrysafe_probe":1,"retrysafe_probe":2`)
}

// wantDifferent adds members to the body, and notes a FAIL if other members in their place make the same request. A
// third request, with a value that differs by any comparison, shows whether the API compares unknown members at all. If
// it ignores them, the case proves nothing.
func wantDifferent(t *run, what, one, two string) {
	plain := t.New()
	with := func(members string) wire.Request { return plain.WithBody(probe.WithMembers(plain.Body, members)) }
	first := t.Send("first, with a member more", with(one))
	if !first.OK() {
		t.Skipf("the API refuses members that it does not know (%d): %d %s", first.No, first.Status, body(first))
	}
	a, replayed := sendSame(t, "with another value", first, with(two))
	t.WantEffects(1, first, a)
	if !replayed {
		return
	}
	b, ignored := sendSame(t, "with a value that is quite another", first, with(`"retrysafe_probe":"other"`))
	if ignored {
		t.Infof("the API does not compare members that it does not know (%d, %d), so the case cannot judge it", a.No, b.No)
		return
	}
	t.Failf("%s count as the same (%d), although another value is refused (%d)", what, a.No, b.No)
}
