package httpsafe_test

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/retrysafe/retrysafe/httpsafe"
)

// answer is a response with checks.
type answer struct {
	k *kit
	*http.Response
	body string
}

func (a *answer) want(status int) *answer {
	a.k.Helper()
	if a.StatusCode != status {
		a.k.Fatalf("status %d, want %d: %s", a.StatusCode, status, a.body)
	}
	return a
}

func (a *answer) wantHeader(name, want string) *answer {
	a.k.Helper()
	if got := strings.Join(a.Header.Values(name), " | "); got != want {
		a.k.Errorf("%s is %q, want %q", name, got, want)
	}
	return a
}

// wantState checks Idempotency-Status, for which a time of expiry prints as EXP.
func (a *answer) wantState(want string) *answer {
	a.k.Helper()
	got := a.Header.Get("Idempotency-Status")
	if before, at, ok := strings.Cut(got, "exp=@"); ok {
		got = before + "exp=@" + strings.TrimLeft(at, "0123456789") + "EXP"
	}
	if got != want {
		a.k.Errorf("Idempotency-Status is %q, want %q", got, want)
	}
	return a
}

func (a *answer) wantBody(want string) *answer {
	a.k.Helper()
	if a.body != want {
		a.k.Errorf("body is %q, want %q", a.body, want)
	}
	return a
}

// wantProblem checks a refusal and returns its members.
func (a *answer) wantProblem(status int, slug httpsafe.Slug) map[string]any {
	a.k.Helper()
	a.want(status)
	var members map[string]any
	if err := json.Unmarshal([]byte(a.body), &members); err != nil {
		a.k.Fatalf("body %q: %v", a.body, err)
	}
	for name, want := range map[string]any{
		"type":   "/.well-known/idempotency-policy#" + string(slug),
		"code":   string(slug),
		"status": float64(status),
	} {
		if members[name] != want {
			a.k.Errorf("%s is %v, want %v", name, members[name], want)
		}
	}
	a.wantHeader("Content-Type", "application/problem+json")
	a.wantHeader("Cache-Control", "no-store")
	a.wantHeader("Content-Language", "en")
	a.wantHeader("Link", "</.well-known/idempotency-policy#"+string(slug)+`>; rel="describedby"; type="text/html"`)
	return members
}

// wantReplayOf checks that a is the same answer as first, marked as a replay.
func (a *answer) wantReplayOf(first *answer) {
	a.k.Helper()
	a.want(first.StatusCode)
	a.wantBody(first.body)
	a.wantHeader("Idempotent-Replayed", "true")
	a.wantState("replayed; exp=@EXP")
	for name := range a.Header {
		if _, ok := first.Header[name]; !ok && name != "Idempotent-Replayed" {
			a.k.Errorf("only the replay has %s", name)
		}
	}
	for name := range first.Header {
		if name != "Idempotency-Status" && name != "Date" {
			a.wantHeader(name, strings.Join(first.Header.Values(name), " | "))
		}
	}
}
