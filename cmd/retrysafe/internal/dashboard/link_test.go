package dashboard

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/keys"
)

// A template that no link can be made of is refused, with what to write.
func TestTemplatesThatAreRefused(t *testing.T) {
	for template, says := range map[string]string{
		"javascript:alert(1)":             "must be an HTTP URL",
		"ftp://example.com/{digest}":      "must be an HTTP URL",
		"//example.com/{digest}":          "must be an HTTP URL",
		"/keys/{digest}":                  "must be an HTTP URL",
		"{tag:order}":                     "must be an HTTP URL",
		"":                                "must be an HTTP URL",
		"https://":                        "must be an HTTP URL",
		"https://:443/":                   "must be an HTTP URL",
		"https://user@example.com/":       "must be an HTTP URL",
		"https://example.com\\@evil/":     "must be an HTTP URL",
		"https://exa mple.com/":           "must be an HTTP URL",
		"https://example.com/\n":          "must be an HTTP URL",
		"https://{tag:order}/":            "stands in the host",
		"https://{digest}.example.com/":   "stands in the host",
		"https://example.com{tag:order}":  "stands in the host",
		"https://example.com:{tag:port}/": "must be an HTTP URL",
		"{tag:scheme}://example.com/":     "must be an HTTP URL",
		"http{digest}://example.com/":     "must be an HTTP URL",
		"https://example.com/{key}":       "{key} is no placeholder",
		"https://example.com/{tag}":       "{tag} is no placeholder",
		"https://{upstream_key}.example/": "stands in the host",
		"https://example.com/{tag:}":      "{tag:} is no placeholder",
		"https://example.com/{tag:a b}":   "{tag:a b} is no placeholder",
		"https://example.com/{}":          "{} is no placeholder",
		"https://example.com/{tag:order":  "no counterpart",
		"https://example.com/a}":          "no counterpart",
		"https://example.com/../{digest}": "part . or ..",
		"https://example.com/ {digest}":   "cannot be in a URL",
	} {
		if _, err := ParseLink("Stripe", template); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: got %v, want %q", template, err, says)
		}
	}
	for _, name := range []string{"", " a", "\x1b[2J", strings.Repeat("a", maxLinkName+1)} {
		if _, err := ParseLink(name, "https://example.com/"); err == nil {
			t.Errorf("the name %q was accepted", name)
		}
	}
	if _, err := newLinks(map[string]string{"A": "https://a/{b}"}); err == nil || !strings.Contains(err.Error(), "--link A: {b} is no") {
		t.Errorf("got %v", err)
	}
}

// Whatever a tag says, a link leads to the host, the path and the parameters of its template.
//
// Seen to fail with the escaping taken out of Link.of, with url.PathEscape in its place, with hasDots taken out of it,
// and with origin not looked at in ParseLink: a link then leads to another host.
func TestNoTagChangesWhereALinkLeads(t *testing.T) {
	templates := []string{
		"https://example.com{tag:v}", "https://example.com/{tag:v}", "https://example.com/a/{tag:v}/b", "https://example.com/a?q={tag:v}&r=1",
		"https://example.com/a#{tag:v}", "https://example.com?{tag:v}", "https://example.com#{tag:v}", "http://example.com:8080/.{tag:v}/b",
	}
	for _, value := range []string{
		"order-17", "//evil.example", "/\\evil.example", "\\\\evil.example", ".evil.example", "@evil.example", ":443@evil.example/",
		"javascript:alert(1)", "https://evil.example", "..", ".", "../..", "%2e%2e", "%2e", "..\\..", "?x=1", "&q=2", "#x", "a b+c%20d",
		"\"><script>alert(1)</script>", "é\u202e", "{digest}", "{tag:v}", ";x", "=",
	} {
		for _, template := range templates {
			l, err := ParseLink("Stripe", template)
			if err != nil {
				continue
			}
			text := l.of(keys.Record{Digest: "d", Tags: map[string]string{"v": value}})
			if text == "" {
				continue // not shown
			}
			u, err := url.Parse(text)
			want, _ := url.Parse(placeholder.ReplaceAllString(template, "x"))
			switch {
			case err != nil:
				t.Errorf("%s with %q: %v", template, value, err)
			case u.Scheme != want.Scheme || u.Host != want.Host || u.User != nil:
				t.Errorf("%s with %q leads to %s", template, value, text)
			case strings.Count(u.EscapedPath(), "/") != strings.Count(want.EscapedPath(), "/"), len(u.Query()) != len(want.Query()),
				(u.Fragment == "") != (want.Fragment == ""), u.Query().Get("q") != "" && u.Query().Get("q") != value:
				t.Errorf("%s with %q becomes %s", template, value, text)
			case strings.ContainsAny(text, "\\\"<> ") || hasDots(u):
				t.Errorf("%s with %q becomes %s, which browsers change", template, value, text)
			}
		}
	}
}

var links = regexp.MustCompile(`<a href="(http[^"]*)" rel="noreferrer">([^<]*)</a>`)

// Links are on the page of a key and among those that wait, if the key has their tags.
//
// Seen to fail with isWhole always true in Link.of.
func TestLinksOfAKey(t *testing.T) {
	all, err := newLinks(map[string]string{
		"Stripe & co": "https://stripe.example/search?query={tag:order}", "Bank": "https://bank.example/{tag:account}/{digest}",
	})
	must(t, err)
	k := start(t, Options{Links: all})
	tags, err := retrysafe.NewTags(map[string]string{"order": `17" onclick="alert(1)`})
	must(t, err)
	key := retrysafe.Key{Scope: "acme", ID: "1"}
	c, err := k.store.Claim(t.Context(), retrysafe.ClaimParams{
		Key: key, Owner: retrysafe.NewOwner(), Lease: time.Minute, Keep: retrysafe.Retention{Key: time.Hour}, Tags: tags,
	})
	must(t, err)
	must(t, k.store.Extend(t.Context(), c.Lease, 0))
	k.abandon("acme", "2") // without tags
	for _, path := range []string{"/keys/" + key.Digest().String(), "/attention"} {
		page := k.get(path)
		k.wantStatus(path, page, http.StatusOK)
		found := links.FindAllStringSubmatch(page.Body.String(), -1)
		if len(found) != 1 || html.UnescapeString(found[0][2]) != "Stripe & co" ||
			html.UnescapeString(found[0][1]) != "https://stripe.example/search?query=17%22%20onclick%3D%22alert%281%29" {
			t.Errorf("%s has the links %q", path, found)
		}
		if got := page.Header().Get("Content-Security-Policy"); got != policy {
			t.Errorf("policy %q", got)
		}
	}
}
