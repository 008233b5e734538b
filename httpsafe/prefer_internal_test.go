package httpsafe

import (
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// What a client prefers is what a reader of RFC 7240 with a grammar finds, and a text in quotes is no preference. Seen
// to fail with quoted always false in cutOutsideQuotes, and with the first "wait" not kept.
func FuzzPrefer(f *testing.F) {
	for _, line := range []string{
		"wait=5", "respond-async, wait=10; x=\"a;b,c\"", "foo=\"a, respond-async\", Wait = \"7\"", "wait=1,wait=2",
		"wait=-1", "wait=99999999999",
		"x=\"\\\", wait=3\"", "wait", ",,respond-async=x;y", "wait=0",
	} {
		f.Add(line)
	}
	c := &config{waits: true}
	c.RespondAsync = true
	one := regexp.MustCompile(`^(?:[^",]|"(?:[^"\\]|\\(?s:.))*"?\\?)*`)
	head := regexp.MustCompile(`^(?:[^";]|"(?:[^"\\]|\\(?s:.))*"?\\?)*`)
	f.Fuzz(func(t *testing.T, line string) {
		if !utf8.ValidString(line) {
			return // the expressions read runes
		}
		got := c.preferencesOf(&http.Request{Header: http.Header{"Prefer": {line}}})
		var wantAsync bool
		wait := time.Duration(-1)
		for rest := line; rest != ""; {
			preference := one.FindString(rest)
			rest = strings.TrimPrefix(rest[len(preference):], ",")
			name, value, _ := strings.Cut(head.FindString(preference), "=")
			value = strings.Trim(strings.TrimSpace(value), `"`)
			switch strings.ToLower(strings.TrimSpace(name)) {
			case "respond-async":
				wantAsync = true
			case "wait":
				if n, err := strconv.Atoi(value); err == nil && wait < 0 && n >= 0 && n <= math.MaxInt32 && value[0] != '+' &&
					value[0] != '-' {
					wait = time.Duration(n) * time.Second
				}
			}
		}
		if got.async != wantAsync || got.wait != max(wait, 0) && (wait != 0 || got.wait != 1) {
			t.Errorf("%q: %+v, want %v, %v", line, got, wantAsync, wait)
		}
		if (got.seconds == "") != (wait < 0) {
			t.Errorf("%q: applied %q, wait %v", line, got.seconds, wait)
		}
	})
}
