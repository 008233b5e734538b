package config

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/outbox/webhook"
	"github.com/retrysafe/retrysafe/proxy"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// atWork is a proxy made from a file, in front of an API whose answer is body, with the status that the request's
// X-Status asks for.
type atWork struct {
	*testing.T
	proxy *proxy.Proxy
	store *memstore.Store
	runs  atomic.Int64
	seen  *httpsafe.Observation
}

// RoundTrip is the API.
func (a *atWork) RoundTrip(r *http.Request) (*http.Response, error) {
	n := a.runs.Add(1)
	var asked []byte
	if r.Body != nil {
		asked, _ = io.ReadAll(r.Body)
	}
	w := httptest.NewRecorder()
	w.Header().Set("Set-Cookie", "session=1")
	w.Header().Set("X-Secret", "shown once")
	w.Header().Set("X-Got-Key", r.Header.Get("X-Key"))
	status := http.StatusCreated
	_, _ = fmt.Sscan(r.Header.Get("X-Status"), &status)
	w.WriteHeader(status)
	if strings.Contains(string(asked), "json") {
		_, _ = w.Write(asked)
	} else {
		_, _ = fmt.Fprintf(w, "run %d", n)
	}
	answer := w.Result()
	answer.Request = r
	return answer, nil
}

// standardSecret is a secret of Standard Webhooks.
const standardSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// work runs test with the proxy of a file whose one route, or whose defaults, have the settings.
func work(t *testing.T, settings string, test func(a *atWork)) {
	t.Helper()
	t.Setenv("S", "a secret of some length")
	t.Setenv("OTHER", standardSecret)
	synctest.Test(t, func(t *testing.T) {
		c := mustParse(t, "upstream: http://api\ndefaults: "+settings+"\nsecret: {env: S}\n")
		if err := c.FillIn(); err != nil {
			t.Fatal(err)
		}
		o, err := c.Proxy()
		if err != nil {
			t.Fatal(err)
		}
		ofGuard, err := c.Guard()
		if err != nil {
			t.Fatal(err)
		}
		a := &atWork{T: t, store: memstore.New(memstore.Options{})}
		o.Transport = a
		guard := retrysafe.New(a.store, ofGuard)
		a.seen = httpsafe.NewObservation(guard, httpsafe.ObservationOptions{})
		o.Observation = a.seen
		defer func() { _ = guard.Shutdown(t.Context()) }()
		scope := func(r *http.Request) (string, error) {
			if caller := r.Header.Get("Caller"); caller != "" {
				return caller, nil
			}
			return httpsafe.ScopeNone()(r)
		}
		if a.proxy, err = proxy.New(guard, scope, o); err != nil {
			t.Fatal(err)
		}
		test(a)
	})
}

// post sends a request, with header fields as "Name: value", and returns the answer's status and body in one text.
func (a *atWork) post(target, body string, fields ...string) (string, http.Header) {
	a.Helper()
	u, err := url.Parse(target)
	if err != nil {
		a.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, u.String(), strings.NewReader(body))
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	a.proxy.ServeHTTP(w, r)
	return strings.TrimSpace(fmt.Sprint(w.Code, " ", w.Body)), w.Header()
}

// Each setting changes what the proxy does with two equal requests. Without the setting each of them fails, which was
// seen with {} in its place.
func TestSettingsAtWork(t *testing.T) {
	const key = "Idempotency-Key: k-0123456789"
	for name, c := range map[string]struct {
		settings string
		test     func(a *atWork)
	}{
		"key in the body": {"{key: {body: /meta/id}}", func(a *atWork) {
			for range 2 {
				got, _ := a.post("/pay", `{"meta":{"id":"k-1"}}`)
				want(a.T, "answer", got, "201 run 1")
			}
			got, _ := a.post("/pay", `{"meta":{"id":"k-2"}}`)
			want(a.T, "another key", got, "201 run 2")
		}},
		"key in the query": {"{key: {query: rid}}", func(a *atWork) {
			for range 2 {
				got, _ := a.post("/pay?rid=k-1", "")
				want(a.T, "answer", got, "201 run 1")
			}
		}},
		"profile file": {"{profile: testdata/acme.yaml, marker: Replayed}", func(a *atWork) {
			for _, replayed := range []string{"", "true"} {
				got, header := a.post("/pay", "", "Acme-Key: k-0123456789")
				want(a.T, "answer", got, "201 run 1")
				want(a.T, "marker", header.Get("Replayed")+header.Get("Acme-Replayed"), replayed)
			}
			got, _ := a.post("/pay", "", key)
			want(a.T, "refusal", got, `400 {"fault":"NO_KEY"}`)
		}},
		"observe": {"{mode: observe}", func(a *atWork) {
			for n := range 2 {
				got, _ := a.post("/pay", "", key)
				want(a.T, "answer", got, fmt.Sprint("201 run ", n+1))
				synctest.Wait() // or the second may find the first in flight
			}
			for _, c := range a.seen.Counts() {
				want(a.T, "retries", c.Observed[httpsafe.ObservedRetry], 1)
			}
		}},
		"observe a route whose service completes": {"{mode: observe, complete: upstream, async_claim: true}", func(a *atWork) {
			got, _ := a.post("/pay", "", key)
			want(a.T, "answer", got, "201 run 1")
		}},
		"enforce for": {"{mode: observe, enforce_for: ['100%']}", func(a *atWork) {
			for range 2 {
				got, _ := a.post("/pay", "", key, "Caller: acme")
				want(a.T, "answer", got, "201 run 1")
			}
		}},
		"verify": {"{verify: {stripe: {secret: [{env: OTHER}, {env: S}], tolerance: 1m}}, key: {body: /id}}", func(a *atWork) {
			const event = `{"id":"evt_1"}`
			at := fmt.Sprint(time.Now().Unix())
			mac := hmac.New(sha256.New, []byte("a secret of some length"))
			io.WriteString(mac, at+"."+event)
			signed := fmt.Sprintf("Stripe-Signature: t=%s,v1=%x", at, mac.Sum(nil))
			refused := func(body string, says string, fields ...string) {
				a.Helper()
				got, _ := a.post("/hooks", body, fields...)
				if !strings.HasPrefix(got, "401 ") || !strings.Contains(got, `"code":"signature-invalid"`) || !strings.Contains(got, says) {
					a.Errorf("got %s, want 401 with %q", got, says)
				}
			}
			refused(event, "Stripe-Signature is missing")
			refused(event+" ", "No signature in Stripe-Signature fits", signed)
			for range 2 {
				got, _ := a.post("/hooks", event, signed)
				want(a.T, "signed", got, "201 run 1")
			}
			time.Sleep(time.Minute + time.Second)
			refused(event, "more than 1m0s in the past", signed)
			want(a.T, "runs", a.runs.Load(), 1)
		}},
		"verify, without a key": {"{verify: {github: {secret: {env: S}}}}", func(a *atWork) {
			mac := hmac.New(sha256.New, []byte("a secret of some length"))
			io.WriteString(mac, "a")
			signed := fmt.Sprintf("X-Hub-Signature-256: sha256=%x", mac.Sum(nil))
			got, _ := a.post("/hooks", "a", signed)
			want(a.T, "signed", got, "201 run 1")
			got, _ = a.post("/hooks", "b", signed)
			want(a.T, "forged", got[:4], "401 ")
		}},
		"verify, shopify": {"{verify: {shopify: {secret: {env: S}}}}", func(a *atWork) {
			mac := hmac.New(sha256.New, []byte("a secret of some length"))
			io.WriteString(mac, "a")
			signed := "X-Shopify-Hmac-Sha256: " + base64.StdEncoding.EncodeToString(mac.Sum(nil))
			got, _ := a.post("/hooks", "a", signed)
			want(a.T, "signed", got, "201 run 1")
			got, _ = a.post("/hooks", "b", signed)
			want(a.T, "forged", got[:4], "401 ")
		}},
		"verify, slack": {"{verify: {slack: {secret: {env: S}, tolerance: 1h}}}", func(a *atWork) {
			at := fmt.Sprint(time.Now().Unix())
			mac := hmac.New(sha256.New, []byte("a secret of some length"))
			io.WriteString(mac, "v0:"+at+":a")
			signed := fmt.Sprintf("X-Slack-Signature: v0=%x", mac.Sum(nil))
			time.Sleep(time.Hour)
			got, _ := a.post("/hooks", "a", signed, "X-Slack-Request-Timestamp: "+at)
			want(a.T, "signed", got, "201 run 1")
			got, _ = a.post("/hooks", "b", signed, "X-Slack-Request-Timestamp: "+at)
			want(a.T, "forged", got[:4], "401 ")
		}},
		"verify, standard webhooks": {"{verify: {standard_webhooks: {secret: {env: OTHER}}}}", func(a *atWork) {
			secrets, err := webhook.ParseSecrets(standardSecret)
			if err != nil {
				a.Fatal(err)
			}
			now := time.Now()
			signed := []string{
				"Webhook-Id: msg_1", fmt.Sprint("Webhook-Timestamp: ", now.Unix()),
				"Webhook-Signature: " + secrets.Sign("msg_1", now, []byte("a")),
			}
			got, _ := a.post("/hooks", "a", signed...)
			want(a.T, "signed", got, "201 run 1")
			got, _ = a.post("/hooks", "b", signed...)
			want(a.T, "forged", got[:4], "401 ")
		}},
		"scope version": {"{scope_version: v2}", func(a *atWork) {
			a.post("/pay", "", key)
			held, err := a.store.Inspect(a.Context(),
				retrysafe.Key{Scope: "v2/", ID: "k-0123456789"}.Digest())
			if err != nil || len(held) != 1 {
				a.Errorf("the key has the scope v2: %v, %v", held, err)
			}
		}},
		"upstream key": {"{upstream_key: X-Key}", func(a *atWork) {
			_, got := a.post("/pay", "", key)
			want(a.T, "key", got.Get("X-Got-Key"), "f26c4560d01a8257f505cfccf490c63a")
		}},
		"upstream key secret": {"{upstream_key: X-Key}\nupstream_key_secret: {env: S}", func(a *atWork) {
			_, got := a.post("/pay", "", key)
			want(a.T, "key", got.Get("X-Got-Key"), "b442e62e148f5ee22b6206e6845a982f")
		}},
		"statuses": {"{statuses: {release: [4xx], store: [402, 500], ambiguous: [409]}, ambiguous: unknown}", func(a *atWork) {
			for status, second := range map[string]string{
				"402": "402 run 1", "404": "404 run 2", "500": "500 run 1", "409": "500 outcome-unknown",
			} {
				a.runs.Store(0)
				a.post("/pay", status, "Idempotency-Key: key-of-"+status, "X-Status: "+status)
				got, _ := a.post("/pay", status, "Idempotency-Key: key-of-"+status, "X-Status: "+status)
				if strings.Contains(got, "outcome-unknown") {
					got = got[:4] + "outcome-unknown"
				}
				want(a.T, status, got, second)
			}
		}},
		"failure retention": {"{failure_retention: {replay: 1m}}", func(a *atWork) {
			a.post("/pay", "", key, "X-Status: 402")
			got, _ := a.post("/pay", "", key)
			want(a.T, "declined", got, "402 run 1")
			time.Sleep(time.Minute + time.Second)
			got, _ = a.post("/pay", "", key)
			want(a.T, "a minute later", got, "201 run 2")
			time.Sleep(23 * time.Hour)
			got, _ = a.post("/pay", "", key)
			want(a.T, "a day later", got, "201 run 2")
		}},
		"key status": {"{key_status: true}", func(a *atWork) {
			a.post("/pay", "", key)
			w := httptest.NewRecorder()
			a.proxy.ServeHTTP(w, httptest.NewRequest(http.MethodGet, proxy.KeyStatusPath+"/k-0123456789", nil))
			if got := w.Body.String(); !strings.Contains(got, `"state":"succeeded"`) {
				a.Errorf("asked for the key: %d %s", w.Code, got)
			}
		}},
		"any host": {"{any_host: true}", func(a *atWork) {
			a.post("http://api-eu.example/pay", "", key)
			got, _ := a.post("http://api.example/pay", "", key)
			want(a.T, "at another host", got, "201 run 1")
			got, _ = a.post("http://api.example/refund", "", key)
			want(a.T, "at another path", got[:4], "422 ")
		}},
		"fingerprint headers": {"{fingerprint_headers: [Api-Version]}", func(a *atWork) {
			a.post("/pay", "", key, "Api-Version: 1")
			got, _ := a.post("/pay", "", key, "Api-Version: 1")
			want(a.T, "the same version", got, "201 run 1")
			got, _ = a.post("/pay", "", key, "Api-Version: 2")
			want(a.T, "another version", got[:4], "422 ")
		}},
		"allow early data": {"{allow_early_data: true}", func(a *atWork) {
			got, _ := a.post("/pay", "", key, "Early-Data: 1")
			want(a.T, "early", got, "201 run 1")
		}},
		"reject unsupported": {"{reject_unsupported: true, methods: [PATCH]}", func(a *atWork) {
			got, _ := a.post("/pay", "", key)
			want(a.T, "POST", got[:4], "501 ")
		}},
		"echo": {"{echo: [/n], fingerprint: {exclude: [/n]}}", func(a *atWork) {
			first, _ := a.post("/rpc", `{"n":1,"json":true}`, key)
			want(a.T, "first", first, `201 {"n":1,"json":true}`)
			second, _ := a.post("/rpc", `{"json":true, "n":"two"}`, key)
			want(a.T, "second", second, `201 {"n":"two","json":true}`)
			want(a.T, "runs", a.runs.Load(), 1)
		}},
		"tags": {"{tags: {order: /order/id, customer: 'header:X-Customer', page: 'query:p'}}", func(a *atWork) {
			a.post("/pay?p=7", `{"order":{"id":1234}}`, key, "X-Customer: Zoë")
			found, err := a.store.Find(a.Context(), retrysafe.FindParams{Tag: "order=1234"})
			if err != nil || len(found) != 1 {
				a.Fatalf("the key has the tag order=1234: %v, %v", found, err)
			}
			want(a.T, "tags", found[0].Tags.String(), "customer=Zoë\norder=1234\npage=7")
		}},
		"dashboard url": {"{ambiguous: unknown}\ndashboard: {url: 'https://ops.example/retrysafe/'}", func(a *atWork) {
			a.post("/pay", "", key, "X-Status: 504") // after which the outcome is unknown
			got, _ := a.post("/pay", "", key)
			found, err := a.store.List(a.Context(), retrysafe.ListParams{})
			if err != nil || len(found) != 1 {
				a.Fatalf("records: %v, %v", found, err)
			}
			if page := "https://ops.example/retrysafe/keys/" + found[0].Key.String(); !strings.Contains(got, `"instance":"`+page+`"`) {
				a.Errorf("got %s, want the instance %s", got, page)
			}
		}},
		"drop body": {"{drop_body: true}", func(a *atWork) {
			a.post("/pay", "", key)
			got, header := a.post("/pay", "", key)
			want(a.T, "retry", got, "201")
			want(a.T, "marked", strings.Contains(header.Get("Idempotency-Status"), "body=?0"), true)
		}},
		"redact": {"{redact: [/card/number, /pin]}", func(a *atWork) {
			const asked = `{"json":1,"card":{"number":"4242"},"pin":17}`
			first, _ := a.post("/cards", asked, key)
			want(a.T, "first", first, "201 "+asked)
			second, _ := a.post("/cards", asked, key)
			want(a.T, "retry", second, `201 {"json":1,"card":{"number":"[redacted]"},"pin":null}`)
			a.post("/cards", "", key, "Caller: bob") // an answer that is not JSON
			third, header := a.post("/cards", "", key, "Caller: bob")
			want(a.T, "not JSON", third+" "+strings.Join(strings.Split(header.Get("Idempotency-Status"), "; ")[:2], "; "),
				"201 replayed; body=?0")
		}},
		"keep and drop headers": {"{keep_headers: [set-cookie], drop_headers: [X-Secret]}", func(a *atWork) {
			_, first := a.post("/pay", "", key)
			want(a.T, "first", first.Get("Set-Cookie")+first.Get("X-Secret"), "session=1shown once")
			_, second := a.post("/pay", "", key)
			want(a.T, "second", second.Get("Set-Cookie")+second.Get("X-Secret"), "session=1")
		}},
		"marker": {"{marker: X-Replay}", func(a *atWork) {
			_, first := a.post("/pay", "", key)
			_, second := a.post("/pay", "", key)
			want(a.T, "marker", first.Get("X-Replay")+second.Get("X-Replay"), "true")
		}},
		"marker field": {"{marker_field: /again}", func(a *atWork) {
			first, _ := a.post("/pay", `{"json":1}`, key)
			second, _ := a.post("/pay", `{"json":1}`, key)
			want(a.T, "marker", first+" "+second, `201 {"json":1} 201 {"again":true,"json":1}`)
		}},
		"scope path": {"{scope_route: true, scope_path: true}", func(a *atWork) {
			first, _ := a.post("/pay/1", "", key)
			second, _ := a.post("/pay/2", "", key)
			want(a.T, "two paths", first+" "+second, "201 run 1 201 run 2")
		}},
		"numbers and headers": {"{fingerprint: {numbers: value, without_headers: true}}", func(a *atWork) {
			a.post("/pay", `{"n":1.0}`, key)
			got, _ := a.post("/pay", `{"n":1}`, key, "Content-Type: text/plain")
			want(a.T, "the same value", got, "201 run 1")
			got, _ = a.post("/pay", `{"n":1.1}`, key)
			want(a.T, "another value", got[:4], "422 ")
		}},
		"numbers as doubles": {"{fingerprint: {exclude: [/at], numbers: double}}", func(a *atWork) {
			a.post("/pay", `{"n":9007199254740993,"at":1}`, key)
			got, _ := a.post("/pay", `{"n":9007199254740992}`, key)
			want(a.T, "the same double", got, "201 run 1")
		}},
		"the records of a profile": {"{profile: adcp, required: false, key: header}", func(a *atWork) {
			const body = `{"idempotency_key":"0123456789abcdef"}`
			a.post("/buy", body)
			time.Sleep(24*time.Hour + 59*time.Second)
			got, _ := a.post("/buy", body)
			want(a.T, "within a minute of clock skew", got, "201 run 1")
			time.Sleep(24 * time.Hour)
			got, _ = a.post("/buy", body)
			want(a.T, "a day later", strings.Contains(got, "IDEMPOTENCY_EXPIRED"), true)
		}},
	} {
		t.Run(name, func(t *testing.T) { work(t, c.settings, c.test) })
	}
}
