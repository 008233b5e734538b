//go:build unix

package clients

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/testing/browser"
)

// The page's script pays each order once, under one key: while the browser is offline, after an answer was lost and the
// page loaded again, after the user had to sign in, after a redirect to a page, after a refusal, and if two contexts of
// one origin, as two tabs are, pay the same order at once.
//
// Seen to fail with "key: crypto.randomUUID()" in the headers of send, with timer and listener of "online" taken out of
// the page, with "put" in place of "add", with 401 taken for a definite answer, with "error" taken out of the request (the
// page that it was redirected to was the answer), with abs taken out of waits, and with maybe always false.
func TestTheBrowserPaysOnce(t *testing.T) {
	text, err := os.ReadFile("../../docs/mobile-and-browser.md")
	if err != nil {
		t.Fatal(err)
	}
	_, script, _ := strings.Cut(string(text), "```js file=payments.js\n")
	script, _, _ = strings.Cut(script, "```\n")
	s := newTill(t, func() {})
	api := s.Config.Handler
	var loses, signedOut, redirects, refuses atomic.Bool
	var refusals atomic.Int64
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			w.Header().Set("Content-Type", "text/html")
			w.Write([]byte(`<link rel=icon href=data:,>
				<script type=module>import * as p from "/payments.js"; window.p = p</script>`))
		case "/payments.js":
			w.Header().Set("Content-Type", "text/javascript")
			w.Write([]byte(script))
		case "/payments":
			if redirects.Load() {
				http.Redirect(w, r, "/", http.StatusSeeOther)
				return
			}
			if refuses.Load() {
				w.Header().Set("Content-Type", "application/problem+json")
				w.WriteHeader(http.StatusMethodNotAllowed)
				w.Write([]byte(`{"retryable": false, "executed": "no"}`))
				return
			}
			if !signedOut.Load() {
				r.Header.Set("Authorization", "Bearer me") // a browser's cookie
			}
			answer := httptest.NewRecorder()
			api.ServeHTTP(answer, r)
			if answer.Code == http.StatusUnauthorized {
				refusals.Add(1)
			}
			if loses.Load() {
				panic(http.ErrAbortHandler)
			}
			for name, values := range answer.Header() {
				w.Header()[name] = values
			}
			w.WriteHeader(answer.Code)
			w.Write(answer.Body.Bytes())
		}
	})
	b := browser.Open(t)
	b.Call("Network.enable", nil, nil)
	offline := func(is bool) {
		b.Call("Network.emulateNetworkConditions",
			map[string]any{"offline": is, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}, nil)
	}
	answered := func(orders string) {
		t.Helper()
		const list = `p.intents().then(all => all.filter(i => i.answer?.status === 201).map(i => i.order).join(" "))`
		got := b.Run(list)
		for deadline := time.Now().Add(time.Minute); got != orders && time.Now().Before(deadline); got = b.Run(list) {
			time.Sleep(20 * time.Millisecond)
		}
		if got != orders {
			t.Fatalf("the page has answers for %q, want %q", got, orders)
		}
	}

	b.GoTo(s.URL + "/")
	offline(true)
	b.Run(`p.pay("offline", 4200)`)
	answered("")
	s.check(t, 0)
	offline(false)
	answered("offline")

	loses.Store(true)
	b.Run(`p.pay("lost", 4200)`)
	answered("offline")
	loses.Store(false)
	b.GoTo(s.URL + "/")
	answered("lost offline")

	signedOut.Store(true)
	b.Run(`p.pay("later", 4200)`)
	if refusals.Load() == 0 {
		t.Error("a user who is signed out is not refused")
	}
	answered("lost offline")
	signedOut.Store(false)
	b.Run(`p.sendAll().then(() => "")`)
	answered("later lost offline")

	redirects.Store(true)
	b.Run(`p.pay("redirected", 4200)`)
	if got := b.Run(`p.intents().then(all => all.filter(i => i.answer).length)`); got != "3" {
		t.Errorf("%s intents have an answer, want 3", got)
	}
	redirects.Store(false)
	b.Run(`p.sendAll().then(() => "")`)
	answered("later lost offline redirected")

	// A refusal says nothing of an attempt that came before it.
	loses.Store(true)
	b.Run(`p.pay("refused later", 4200)`)
	refuses.Store(true) // first: the page may send it again at any time
	loses.Store(false)
	b.Run(`p.pay("refused", 4200)`)
	refuses.Store(false)
	const refused = `p.intents().then(all => all.filter(i => i.answer?.status === 405)
		.map(i => i.order + (i.answer.maybe ? ": may have run" : ": nothing was done")).join(", "))`
	if got := b.Run(refused); got != "refused: nothing was done, refused later: may have run" {
		t.Errorf("the page says %q", got)
	}

	// Begun with a clock that was 20 hours ahead, and has been corrected before there is a network.
	offline(true)
	b.Run(`Date.now = ((now) => () => now() + 20 * 3600e3)(Date.clock = Date.now), p.pay("tomorrow", 4200)`)
	b.Run(`Date.now = Date.clock, ""`)
	offline(false) // upon which the page sends what it may
	b.Run(`p.sendAll().then(() => "")`)

	b.Run(`new Promise(loaded => {
		const tab = document.createElement("iframe")
		tab.src = "/"
		tab.onload = loaded
		document.body.append(tab)
	}).then(() => Promise.all([p.pay("twice", 1), frames[0].p.pay("twice", 1), p.pay("twice", 1)])).then(() => "")`)
	answered("later lost offline redirected twice")
	s.check(t, 6)
}
