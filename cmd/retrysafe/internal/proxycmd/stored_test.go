//go:build unix

package proxycmd

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/clitest"
)

// These are the rows of docs/proxy-configuration.md, "What is stored, and what frees the key".
//
// Seen to fail with Retry-After not looked at, and with trust_unavailable left out of the route.
func TestWhatIsStoredAsDocumented(t *testing.T) {
	t.Parallel()
	problem := http.Header{"Content-Type": {"application/problem+json"}}
	cases := []struct {
		status int
		header http.Header
		body   string
		route  string
		again  string // what a retry gets
	}{
		{status: 201, again: "201 replayed"},
		{status: 303, header: http.Header{"Location": {"/x"}}, again: "303 replayed"},
		{status: 404, again: "404 replayed"},
		{status: 409, again: "409 replayed"},
		{status: 422, again: "422 replayed"},
		{status: 401, again: "200 sent"},
		{status: 429, again: "200 sent"},
		{status: 409, header: problem, body: `{"type":"x#request-in-flight","code":"request-in-flight"}`, again: "200 sent"},
		{status: 503, header: http.Header{"Retry-After": {"1"}}, again: "200 sent"},
		{status: 503, header: http.Header{"Idempotency-Status": {"released"}}, again: "200 sent"},
		{status: 503, header: problem, body: `{"executed":"no"}`, again: "200 sent"},
		{status: 503, again: "503 replayed"},
		{status: 503, route: "trust_unavailable: true", again: "200 sent"},
		{status: 408, again: "408 replayed"},
		{status: 500, again: "500 replayed"},
		{status: 502, again: "502 replayed"},
		{status: 500, route: "ambiguous: release", again: "200 sent"},
		{status: 500, route: "ambiguous: unknown", again: "500 outcome-unknown"},
		{status: 201, body: strings.Repeat("x", 2000), route: "max_response: 1KiB", again: "201 replayed; body=?0"},
	}
	var config strings.Builder
	config.WriteString("routes:\n")
	for i, c := range cases {
		fmt.Fprintf(&config, "  POST /%d/payments: {%s}\n", i, c.route)
	}
	asked := make([]atomic.Int64, len(cases))
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i, _ := strconv.Atoi(strings.Split(r.URL.Path, "/")[1])
		if asked[i].Add(1) > 1 {
			io.WriteString(w, "the second answer")
			return
		}
		maps.Copy(w.Header(), cases[i].header)
		w.WriteHeader(cases[i].status)
		io.WriteString(w, cases[i].body)
	}))
	t.Cleanup(up.Close)
	p := clitest.StartProxy(t, "--upstream="+up.URL, "--store=memory:", "--config="+clitest.WriteFile(t, config.String()))
	p.Client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	base := p.URL
	for i, c := range cases {
		p.URL = base + "/" + strconv.Itoa(i)
		t.Run(fmt.Sprint(c.status, c.header, c.body[:min(30, len(c.body))], c.route), func(t *testing.T) {
			first := p.MustPost(strconv.Itoa(i), "amount=1")
			clitest.Want(t, "status", first.StatusCode, c.status)
			clitest.Want(t, "body", first.Text, c.body)
			again := p.MustPost(strconv.Itoa(i), "amount=1")
			clitest.Want(t, "a retry", fmt.Sprint(again.StatusCode, " ", told(again)), c.again)
			clitest.Want(t, "asked again", asked[i].Load() > 1, strings.HasSuffix(c.again, "sent"))
		})
	}
}

// told is what a retry was answered with, in a word.
func told(r clitest.Reply) string {
	status := r.Header.Get("Idempotency-Status")
	switch {
	case strings.Contains(r.Text, "outcome-unknown"):
		return "outcome-unknown"
	case strings.HasPrefix(status, "replayed") && strings.Contains(status, "body=?0"):
		return "replayed; body=?0"
	case strings.HasPrefix(status, "replayed"):
		return "replayed"
	case r.Text == "the second answer":
		return "sent"
	}
	return status
}

// A key that is older than its record would be is not run again.
//
// Seen to fail without the setting: the old key runs.
func TestAnOldKeyIsRefused(t *testing.T) {
	t.Parallel()
	up := clitest.NewAPI(t)
	p := clitest.StartProxy(t, "--upstream="+up.URL, "--store=memory:",
		"--config="+clitest.WriteFile(t, "defaults: {max_key_age: 1d}\n"))
	keyOf := func(made time.Time) string {
		text := fmt.Sprintf("%012x", made.UnixMilli())
		return text[:8] + "-" + text[8:] + "-7000-8000-000000000001"
	}
	old := p.MustPost(keyOf(time.Now().Add(-25*time.Hour)), "amount=1")
	clitest.Want(t, "an old key", old.StatusCode, 422)
	clitest.WantText(t, "body", old.Text, "key-expired")
	clitest.Want(t, "a new key", p.MustPost(keyOf(time.Now()), "amount=1").StatusCode, 201)
	clitest.Want(t, "asked", up.Asked.Load(), 1)
}
