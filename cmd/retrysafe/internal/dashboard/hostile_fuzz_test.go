package dashboard

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/keys"
)

// A link leads to the host, the path and the parameters of its template, whatever a tag says and whatever the template
// is that was accepted. Seen to fail with the escaping taken out of Link.of, and with hasDots taken out of it.
func FuzzLink(f *testing.F) {
	for _, template := range []string{
		"https://example.com/{tag:v}", "http://example.com:8080/.{tag:v}/b?q={tag:v}&r={digest}",
		"https://example.com#{upstream_key}",
		"HTTPS://[::1]?{tag:v}", "https://a%2fb/{tag:v}", "https://a:/%2e{tag:v}",
	} {
		f.Add(template, "//evil.example")
		f.Add(template, "..")
	}
	f.Fuzz(func(t *testing.T, template, value string) {
		l, err := ParseLink("Stripe", template)
		if err != nil {
			return
		}
		text := l.of(keys.Record{Digest: "d", UpstreamKey: "u", Tags: map[string]string{"v": value}})
		if text == "" {
			return // not shown
		}
		u, err := url.Parse(text)
		want, _ := url.Parse(placeholder.ReplaceAllString(template, "x"))
		switch {
		case err != nil:
			t.Errorf("%s with %q: %v", template, value, err)
		case u.Scheme != want.Scheme || u.Host != want.Host || u.User != nil:
			t.Errorf("%s with %q leads to %s", template, value, text)
		case strings.Count(u.EscapedPath(), "/") != strings.Count(want.EscapedPath(), "/"),
			strings.Count(u.RawQuery, "&") != strings.Count(want.RawQuery, "&"),
			strings.Count(u.RawQuery, "=") != strings.Count(want.RawQuery, "="), (u.Fragment == "") != (want.Fragment == ""):
			t.Errorf("%s with %q becomes %s", template, value, text)
		case hasDots(u) || strings.ContainsAny(text, "\\<>"):
			t.Errorf("%s with %q becomes %s, which browsers change", template, value, text)
		}
	})
}

// A login leads to a path of this server and nowhere else, as browsers read addresses: they drop tabs and line breaks,
// trim spaces, and take a backslash for a slash. Seen to fail with the backslash and with "//" accepted by ownPath.
func FuzzOwnPath(f *testing.F) {
	for _, text := range []string{
		"/keys/1?a=b#c", "//evil", "/\\evil", "https://evil", "/\t/evil", "/%09/evil",
		"\x00//evil", "/a:b//c", "",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		path := ownPath(text)
		if path != text && path != "/" {
			t.Errorf("%q became %q", text, path)
		}
		seen := strings.Map(func(r rune) rune {
			switch r {
			case '\t', '\n', '\r':
				return -1
			case '\\':
				return '/'
			}
			return r
		}, strings.Trim(path, " \x00\x01\x02\x0b\x0c\x1f"))
		base := &url.URL{Scheme: "https", Host: "ops.example", Path: "/login"}
		if to, err := base.Parse(seen); err != nil || to.Host != base.Host || to.Scheme != base.Scheme {
			t.Errorf("%q leads to %v, %v", path, to, err)
		}
	})
}

// A file of users that is accepted has each name once, with a role and a hash; an error shows no word that may be a
// token. Seen to fail with words[2] in the error.
func FuzzUsers(f *testing.F) {
	hash := "sha256:" + strings.Repeat("0a", 32)
	for _, text := range []string{
		"alice look " + hash, "# x\n\nbob purge " + hash + " # y\ncarol resolve " + hash + "\n", "alice none " + hash,
		"a look " + hash + "\na look " + hash, "a look token-of-alice-0123456789", "a look sha256:0a", "\x00\u2028",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		all, err := parseUsers("users", text)
		if err != nil {
			for _, word := range strings.Fields(text) {
				if len(word) >= shortestToken && strings.Contains(err.Error(), word) {
					t.Errorf("%v shows %q", err, word)
				}
			}
			return
		}
		again := ""
		for _, u := range all {
			again += fmt.Sprintf("%s %s sha256:%x\n", u.name, u.role, u.hash)
		}
		users, err := parseUsers("users", again)
		if err != nil || !slices.Equal(users, all) || len(all) == 0 {
			t.Errorf("%q became %q, which reads as %v, %v", text, again, users, err)
		}
	})
}

// The name of a dead letter that is read is the one that its page has. Seen to fail with FormatInt not compared in
// parseLetter.
func FuzzLetter(f *testing.F) {
	for _, name := range []string{"box/1", "box/01", "/1", "a/b/1", "box/9223372036854775808", "box/-1", "box/+1"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		box, id, err := parseLetter(name)
		if err == nil && (fmt.Sprintf("%s/%d", box, id) != name || id < 1 || box == "" || !isLetter(name)) {
			t.Errorf("%q is read as %q, %d", name, box, id)
		}
	})
}
