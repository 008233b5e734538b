//go:build unix

package proxycmd

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/clitest"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/reportcmd"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// reportOf is what retrysafe report --json prints about proxies.
func reportOf(t *testing.T, proxies ...*clitest.Running) reportcmd.Report {
	t.Helper()
	args := []string{"report", "--json"}
	for _, p := range proxies {
		args = append(args, p.Admin)
	}
	got := clitest.Run(t, args...)
	clitest.Want(t, "exit code of "+strings.Join(args, " ")+got.Stderr, got.Code, cli.ExitOK)
	var r reportcmd.Report
	clitest.Must(t, json.Unmarshal([]byte(got.Stdout), &r))
	return r
}

// rowAfter waits until the proxies have counted so many requests for a route, and returns its row.
func rowAfter(t *testing.T, requests int64, route string, proxies ...*clitest.Running) reportcmd.Row {
	t.Helper()
	for late := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		r := reportOf(t, proxies...)
		for _, row := range r.Routes {
			if row.Route == route && row.Requests == requests {
				return row
			}
		}
		if time.Now().After(late) {
			t.Fatalf("the report is %+v, want %d requests", r, requests)
		}
	}
}

// TestTwoProxiesObserveAsPlanned: two proxies over one store count planned traffic exactly, whichever of them a retry
// reaches, and pass all of it on. A busy machine may be too slow for the store's timeout of a second: then they say that
// they have not observed a request, and the traffic is sent again under other keys.
//
// Seen to fail with reuse taken out of claim, and with a store of its own for the second proxy.
func TestTwoProxiesObserveAsPlanned(t *testing.T) {
	t.Parallel()
	clitest.OnEachServer(t, func(t *testing.T, url string) {
		for n := range 5 {
			if observedAsPlanned(t, url, fmt.Sprintf("plan%d-", n)) {
				return
			}
		}
		t.Fatal("the store was too slow five times")
	})
}

// observedAsPlanned sends the planned traffic. It returns false if a request was not observed.
func observedAsPlanned(t *testing.T, url, prefix string) bool {
	t.Helper()
	up := clitest.NewAPI(t)
	file := clitest.WriteFile(t, "defaults: {mode: observe}\nroutes:\n  POST /payments: {required: true, in_flight: reject}\n")
	args := []string{"--upstream=" + up.URL, "--store=" + url, "--config=" + file, "--admin=127.0.0.1:0"}
	both := []*clitest.Running{clitest.StartProxy(t, args...), clitest.StartProxy(t, args...)}
	sent := int64(0)
	send := func(at int, key, body string) {
		clitest.Want(t, "status", both[at%2].MustPost(prefix+key, body).StatusCode, http.StatusCreated)
		sent++
	}
	settle := func() reportcmd.Row { return rowAfter(t, sent, "POST /payments", both...) }
	succeeded := func() int {
		got := clitest.Run(t, "keys", "list", "--state=succeeded", "--limit=1000", "--json", "--store="+url)
		return strings.Count(got.Stdout, `"digest"`)
	}
	before := succeeded()
	for n := range 20 { // each key once
		send(n, fmt.Sprint("once", n), "amount=1")
	}
	settle()
	for n := range 10 { // retries, every other one at the other proxy; two keys have two
		send(n+n/2, fmt.Sprint("once", n%8), "amount=1")
	}
	settle()
	for n := range 3 { // other requests with the same keys
		send(n, fmt.Sprint("once", 8+n), "amount=2")
	}
	for n := range 2 { // no key
		r, err := http.Post(both[n].URL+"/payments", "text/plain", strings.NewReader("amount=1"))
		clitest.Must(t, err)
		r.Body.Close()
		clitest.Want(t, "status", r.StatusCode, http.StatusCreated)
		sent++
	}
	settle()
	goOn := sync.OnceFunc(func() { close(up.GoOn) })
	t.Cleanup(goOn) // however the test ends
	var held sync.WaitGroup
	for n := range 4 { // two at once under each of two keys, at both proxies
		held.Go(func() {
			a, err := both[n%2].Post(fmt.Sprint(prefix, "together", n/2), "amount=1", "X-Hold", "1")
			if err != nil || a.StatusCode != http.StatusCreated {
				t.Errorf("got %v, %v", a, err)
			}
		})
		clitest.WaitFor(t, up.Began, "the request to reach the API beside the others")
	}
	// Until both have met the others: 20 keys used once, 13 used again.
	for late := time.Now().Add(20 * time.Second); succeeded() < before+33 && time.Now().Before(late); {
		time.Sleep(20 * time.Millisecond)
	}
	goOn()
	held.Wait()
	sent += 4
	row := settle()
	if row.UnobservedBy["store"] > 0 {
		return false
	}
	row.UnobservedBy = nil
	got, want := fmt.Sprintf("%+v", row), fmt.Sprintf("%+v", reportcmd.Row{
		Route: "POST /payments", Requests: 39, Keyed: 37, Missing: 2, Retries: 10, Concurrent: 2, Mismatches: 3,
		Keys: 22, Reused: 13, UsedOnce: 9,
	})
	clitest.Want(t, "row", got, want)
	clitest.Want(t, "requests to the API", up.Asked.Load(), sent)
	text := clitest.Run(t, "report", both[0].Admin, both[1].Admin)
	clitest.WantText(t, "report", text.Stdout, "POST /payments", "12 of 39 requests were retries; 2 ran twice at the same time.",
		"9 used a key that was used once.", "Counted by 2 proxies")
	return true
}

// TestObservingSurvivesItsStore: a store that is killed or paused delays no request and fails none, and what it missed is
// counted; afterwards requests are observed again. The proxy ends although its store does not answer.
//
// Seen to fail with the claim made in newObservedRequest instead of in a goroutine of its own, and with the store closed
// without closeWithin: the process outlived its end by 45 s.
func TestObservingSurvivesItsStore(t *testing.T) {
	t.Parallel()
	up := clitest.NewAPI(t)
	postgres := servers.StartPostgres(t, servers.PostgresOptions{})
	url := postgres.Database(t)
	if got := clitest.Run(t, "migrate", "up", "--store="+url); got.Code != 0 {
		t.Fatal(got.Stderr)
	}
	p := clitest.StartProxy(t, "--upstream="+up.URL, "--store="+url, "--observe", "--admin=127.0.0.1:0")
	sent := int64(0)
	post := func(key string) {
		clitest.Want(t, "status", p.MustPost(key, "amount=1").StatusCode, http.StatusCreated)
		sent++
	}
	row := func() reportcmd.Row { return rowAfter(t, sent, "", p) }
	// until posts until a request is observed: a store that has come back, or is busy, may take too long at first.
	until := func(name string, keys int64) {
		t.Helper()
		for n, late := 0, time.Now().Add(time.Minute); row().Keys == keys; n++ {
			if post(fmt.Sprint(name, n)); time.Now().After(late) {
				t.Fatalf("%s: nothing is observed: %+v", name, row())
			}
		}
	}
	post("before")
	until("before", 0)
	for _, fault := range []struct {
		name    string
		do, end func(testing.TB)
	}{{"paused", postgres.Pause, postgres.Resume}, {"killed", postgres.Kill, postgres.Start}} {
		before := row()
		fault.do(t)
		for n := range 100 {
			post(fmt.Sprint(fault.name, n))
		}
		// All were answered while the store was away.
		during := row()
		clitest.Want(t, fault.name+": not observed", during.UnobservedBy["store"]-before.UnobservedBy["store"], 100)
		fault.end(t)
		until(fault.name+"-and-back", during.Keys)
	}
	clitest.Want(t, "requests to the API", up.Asked.Load(), sent)
	postgres.Pause(t)
	t.Cleanup(func() { postgres.Resume(t) })
	post("last")
	p.Signal(syscall.SIGTERM)
	p.Line("the store does not answer: the process ends without closing it")
	clitest.Want(t, "exit code", p.Exit(), cli.ExitOK)
}

// TestObservedProxySweeps: a proxy that enforces nothing sweeps its store, and its metrics say so, and what it counts. Keys
// that it left unfinished are no unknown outcomes.
//
// Seen to fail with Observer left out of startObserving, with count left out of observe, and with IsObservedScope taken out
// of Unknown.
func TestObservedProxySweeps(t *testing.T) {
	t.Parallel()
	up := clitest.NewAPI(t)
	url := clitest.Migrated(t)
	args := []string{"--upstream=" + up.URL, "--store=" + url, "--observe", "--admin=127.0.0.1:0", "--metrics"}
	p := clitest.StartProxy(t, args...)
	p.MustPost("", "amount=1")
	sent := int64(1)
	for late := time.Now().Add(time.Minute); rowAfter(t, sent, "", p).Keys == 0 && time.Now().Before(late); sent++ {
		p.MustPost(fmt.Sprint("a", sent), "amount=1") // for which a busy store may take too long
	}
	m := &measuredProxy{Running: p}
	m.until("retrysafe_sweep_last_success_seconds", 1)
	m.until("retrysafe_observe_requests_total", float64(sent)).want(t, map[string]float64{
		`retrysafe_observe_requests_total{outcome="first",route="everything else"}`:   1,
		`retrysafe_observe_requests_total{outcome="refused",route="everything else"}`: 1,
		`retrysafe_observe_keys_reused_total{route="everything else"}`:                0,
	})
	p.MustPost("cut", "amount=1", "X-Cut", "1") // whose outcome the proxy does not know
	rowAfter(t, sent+1, "", p)
	p.Signal(syscall.SIGTERM)
	clitest.Want(t, "exit code", p.Exit(), cli.ExitOK)
	p = clitest.StartProxy(t, args...)
	defer p.Signal(syscall.SIGTERM)
	clitest.Want(t, "unknown", scrapeOf(p).series[`retrysafe_keys_unknown`], 0)
	if strings.Contains(p.Log(), `"outcome_unknown":1`) {
		t.Errorf("the log counts an observed key: %s", p.Log())
	}
}

// TestAReloadChangesTheMode: what is observed from a reload on is counted, and stays in the report when the next one
// enforces.
//
// Seen to fail with Observation taken out of replace.
func TestAReloadChangesTheMode(t *testing.T) {
	t.Parallel()
	up := clitest.NewAPI(t)
	enforced := "upstream: " + up.URL + "\n"
	p := startReloadable(t, enforced, "--store=memory:")
	p.MustPost("a", "amount=1")
	p.reload(enforced + "defaults: {mode: observe}\n")
	for range 3 {
		p.MustPost("a", "amount=1") // keys begin afresh
	}
	clitest.Want(t, "retries", rowAfter(t, 3, "", p.Running).Retries, 2)
	p.reload(enforced)
	clitest.Want(t, "a replay of the first answer", p.MustPost("a", "amount=1").Text, "charge 1")
	clitest.Want(t, "requests to the API", up.Asked.Load(), 4)
	clitest.Want(t, "retries", rowAfter(t, 3, "", p.Running).Retries, 2)
}

// TestReportNeedsAProxyThatObserves: each fault says what to do, and has its exit code.
func TestReportNeedsAProxyThatObserves(t *testing.T) {
	t.Parallel()
	up := clitest.NewAPI(t)
	p := clitest.StartProxy(t, "--upstream="+up.URL, "--store=memory:", "--admin=127.0.0.1:0")
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{p.Admin}, cli.ExitFailed, "no route of this proxy has mode: observe"},
		{[]string{up.URL + "/"}, cli.ExitFailed, "answers 201"},
		{[]string{"http://" + freeAddress(t)}, cli.ExitFailed, "connection refused"},
		{[]string{"127.0.0.1:8081"}, cli.ExitRefused, "write http://"},
		{[]string{p.Admin, p.Admin + "/report"}, cli.ExitRefused, "counted twice"},
		{nil, cli.ExitRefused, "say what to read"},
	} {
		got := clitest.Run(t, append([]string{"report"}, c.args...)...)
		clitest.Want(t, fmt.Sprint("exit code of ", c.args), got.Code, c.code)
		clitest.WantText(t, fmt.Sprint("error of ", c.args), got.Stderr, c.says)
	}
	got := clitest.Run(t, "proxy", "--upstream="+up.URL, "--observe")
	clitest.Want(t, "exit code", got.Code, cli.ExitRefused)
	clitest.WantText(t, "error", got.Stderr, "--admin 127.0.0.1:8081")
}

// TestFromObserveToEnforce: when a route is enforced, first for one caller and then for all, its keys begin afresh, and each
// then runs once.
//
// Seen to fail with observedPrefix set to "".
func TestFromObserveToEnforce(t *testing.T) {
	t.Parallel()
	up := clitest.NewAPI(t)
	url := clitest.Migrated(t)
	for _, c := range []struct {
		settings string
		runs     int64 // of three requests of acme, and three of globex
	}{
		{"mode: observe", 6}, {"mode: observe, enforce_for: [acme]", 1 + 3}, {"mode: enforce", 0 + 1}, {"mode: observe", 6},
	} {
		file := clitest.WriteFile(t, "scope: header:X-Tenant\ndefaults: {"+c.settings+"}\n")
		p := clitest.StartProxy(t, "--upstream="+up.URL, "--store="+url, "--config="+file, "--admin=127.0.0.1:0")
		before := up.Asked.Load()
		for n := range 6 {
			got := p.MustPost("k", "amount=1", "X-Tenant", []string{"acme", "globex"}[n/3])
			clitest.Want(t, "status", got.StatusCode, http.StatusCreated)
		}
		clitest.Want(t, c.settings, up.Asked.Load()-before, c.runs)
		p.Signal(syscall.SIGTERM)
		clitest.Want(t, "exit code", p.Exit(), cli.ExitOK)
	}
}
