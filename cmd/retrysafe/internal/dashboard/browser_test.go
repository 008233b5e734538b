//go:build unix

package dashboard

import (
	"context"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/keys"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/traffic"
	"github.com/retrysafe/retrysafe/internal/testing/browser"
	"github.com/retrysafe/retrysafe/proxy"
)

// Run the test with -write to draw the pictures of docs/dashboard.md.
var write = flag.Bool("write", false, "write the pictures")

const pictures = "../../../../docs/pictures"

// published are those of the pictures that the page has.
var published = []string{
	"dashboard-overview-light-1180.png", "dashboard-key-light-1180.png", "dashboard-decide-light-1180.png",
	"dashboard-attention-dark-390.png",
}

// A real browser shows each page in light and dark, on a desktop and on a phone: no script of a record runs, nothing
// violates the policy, nothing is logged, no page is wider than the window, and axe finds no violation of its rules for
// accessibility. Then a person decides a key.
//
// Seen to fail with "<p style='color: red'>" and "<input>", which has no label, added to each page, and with
// template.HTML returned by clean.
func TestInABrowser(t *testing.T) {
	meter := traffic.NewMeter()
	hostile := script
	if *write {
		hostile = ""
	}
	links, err := newLinks(map[string]string{"Stripe": "https://dashboard.stripe.com/search?query={digest}"})
	must(t, err)
	configuration := func() string { return "upstream:\n  url: http://localhost:3000\n" }
	k := start(t, Options{
		Outboxes: newBox(t, 3, hostile).found, Links: links, Traffic: meter, ConfigFunc: configuration,
	})
	if *write {
		k.step = "charge"
	}
	waiting := k.abandon("acme"+hostile, "order-17")
	k.abandon("acme"+hostile, "order-18")
	k.abandon("globex"+hostile, "order-19")
	ended := k.end("globex"+hostile, "order-20", `{"id": 17, "amount": 1000}`+hostile)
	for i := range 40 {
		kinds := []retrysafe.EventKind{retrysafe.WorkSucceeded, retrysafe.WorkSucceeded, retrysafe.AnswerReplayed, retrysafe.InFlightRefused}
		meter.Observe(context.Background(), proxy.Event{
			Route: "POST /charges" + hostile, Kind: kinds[i%4], Scope: "acme" + hostile, Key: retrysafe.Digest{byte(i / 20)},
		})
	}
	k.decide(k.abandon("initech"+hostile, "order-21"))
	server := httptest.NewServer(k.dashboard)
	t.Cleanup(server.Close)
	b := window{browser.Open(t)}
	pages := map[string]string{
		"overview": "/", "list": "/find?state=all", "attention": "/attention", "key": "/keys/" + waiting, "ended": "/keys/" + ended,
		"decide": "/decide?digest=" + waiting, "configuration": "/configuration", "decisions": "/audit?read=1", "missing": "/nowhere",
		"outboxes": "/outboxes", "outbox": "/outboxes/outbox", "letter": "/outboxes/outbox/1",
		"top": "/top",
	}
	for name, path := range pages {
		b.GoTo(server.URL + path)
		var expected []string
		if name == "missing" {
			expected = []string{"404"}
		}
		b.CheckAll(name, func(colours string, width int) {
			picture := fmt.Sprintf("dashboard-%s-%s-%d.png", name, colours, width)
			if *write && slices.Contains(published, picture) {
				must(t, os.WriteFile(filepath.Join(pictures, picture), b.Picture(), 0o644))
			}
		}, expected...)
	}
	b.decide(server.URL, waiting)
	if got := k.stateOf(waiting); got != keys.Failed {
		t.Errorf("the key is %s:\n%s", got, b.Run("document.body.innerText"))
	}
	b.Check("the result")
	b.login()
	b.loginAtProvider()
}

// decide ends a key as an operator does.
func (k *kit) decide(digest string) {
	k.Helper()
	_, err := keys.NewLocal(k.store, nil).Resolve(context.Background(), keys.Decision{
		Digest: digest, Action: retrysafe.ResolveFail, Reason: "no charge at the bank", By: "alice",
	})
	k.must(err)
}

// window is a browser's page that shows the dashboard.
type window struct{ *browser.Page }

// decide goes through the forms as a person does.
func (b window) decide(url, digest string) {
	b.Helper()
	b.GoTo(url + "/keys/" + digest)
	b.Load(func() { b.Run(`document.querySelector('a[href^="/decide"]').click()`) })
	b.Run(`document.getElementById('action-fail').click()
		document.getElementById('reason').value = 'no charge\nat the bank'
		document.getElementById('by').value = 'Alice'`)
	b.Load(func() { b.Run(`document.querySelector('form[action="/decide/preview"] button').click()`) })
	b.Load(func() { b.Run(`document.querySelector('form[action="/decide/confirm"] button').click()`) })
}

// login logs in and out.
func (b window) login() {
	b.Helper()
	second, err := NewSecondPerson([]string{"resolve"}, filepath.Join(b.TempDir(), "proposals"))
	must(b.T, err)
	k := start(b.T, Options{Users: users(b.T), SecondPerson: second})
	digest := k.abandon("acme"+script, "order-17")
	proposal := k.propose("purge", decidePath, "release", digest, k.abandon("acme"+script, "order-18"))
	server := httptest.NewServer(k.dashboard)
	b.Cleanup(server.Close)
	b.GoTo(server.URL + "/find")
	b.Check("login")
	b.Run(`document.getElementById('access-token').value = '` + "second" + tokenOf + `'`)
	b.Load(func() { b.Run(`document.querySelector('main button').click()`) })
	if got := b.Run("location.pathname + ' ' + document.querySelector('.name').innerText"); got != "/find second-user" {
		b.Errorf("after the login: %s", got)
	}
	for name, path := range map[string]string{"proposal": proposal, "proposals": "/attention", "proposed": "/keys/" + digest} {
		b.GoTo(server.URL + path)
		b.CheckAll(name, nil)
	}
	b.GoTo(server.URL + proposal)
	b.Load(func() { b.Run(`document.querySelector('form.confirm button').click()`) })
	b.Check("the confirmed proposal")
	if got := k.stateOf(digest); got != keys.Released {
		b.Errorf("the key is %s:\n%s", got, b.Run("document.body.innerText"))
	}
	b.Load(func() { b.Run(`document.querySelector('.who button').click()`) })
	if got := b.Run("location.pathname"); got != "/login" {
		b.Errorf("after the logout: %s", got)
	}
}

// loginAtProvider logs in at a provider of another site. The first page behind the login has the session, although its
// cookie is SameSite=Strict.
//
// Seen to fail with a redirect in place of the page that finishLogin ends with: the browser asked for the login again.
func (b window) loginAtProvider() {
	b.Helper()
	s := startSSO(b.T, Options{Users: users(b.T)})
	s.idp.groups[aliceID] = []string{"ops"}
	b.GoTo(s.url + "/find")
	b.CheckAll("login-provider", nil)
	b.Load(func() { b.Run(`document.querySelector('main a.button').click()`) })
	b.Run(`document.querySelector('input[name=username]').value = '` + alice + `'
		document.querySelector('input[name=password]').value = 'verysecure'`)
	b.Load(func() { b.Run(`document.querySelector('button').click()`) }) // the page that leads on
	arrived := "location.pathname !== '" + CallbackPath + "' && document.readyState === 'complete'"
	for deadline := time.Now().Add(time.Minute); b.Run(arrived+" ? 'yes' : 'no'") != "yes" && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	if got := b.Run("location.pathname + ' ' + (document.querySelector('.name') ?? document.body).innerText"); got != "/find "+aliceName {
		b.Errorf("after the login: %s", got)
	}
}

// The overview renews itself, and shows what has happened meanwhile.
func TestTheOverviewRenewsItself(t *testing.T) {
	k := start(t, Options{Traffic: traffic.NewMeter()})
	server := httptest.NewServer(k.dashboard)
	t.Cleanup(server.Close)
	b := window{browser.Open(t)}
	b.GoTo(server.URL + "/")
	k.dashboard.options.Traffic.Observe(context.Background(), proxy.Event{Route: "POST /seen-later", Kind: retrysafe.WorkSucceeded})
	for deadline := time.Now().Add(browser.Patience); !strings.Contains(b.Run("document.body.innerText"), "POST /seen-later"); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not renew itself")
		}
	}
	if len(b.Trouble) > 0 {
		t.Error(b.Trouble)
	}
}
