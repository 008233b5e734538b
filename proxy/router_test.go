package proxy_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/proxy"
)

// rawPost sends a request whose path stays as it is written.
func (k *kit) rawPost(host, path, key string) int {
	k.t.Helper()
	c, err := net.Dial("tcp", k.server.Listener.Addr().String())
	if err != nil {
		k.t.Fatal(err)
	}
	defer c.Close()
	if key != "" {
		key = "Idempotency-Key: " + key + "\r\n"
	}
	fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: %s\r\n%sConnection: close\r\nContent-Length: 0\r\n\r\n", path, host, key)
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		k.t.Fatal(err)
	}
	res.Body.Close()
	return res.StatusCode
}

// What lenient upstreams take for a path is subject to what the route of that path requires, and is forwarded as it
// came.
//
// Seen to fail with lenient.match in find taken out (all but the exact paths pass without a key), with the forms with
// a slash taken out of lenientForms (/dirs), with dots ignored (/open/../payments), and with found.matches in find
// replaced by false (/api/V1/).
func TestRoutesAreFoundAsLenientUpstreamsReadPaths(t *testing.T) {
	up := newUpstream(t, ok)
	required := httpsafe.Options{Required: true}
	k := newKit(t, up.URL, func(s *setup) {
		s.options.Routes = []proxy.Route{
			{Pattern: "POST /payments", HTTP: required},
			{Pattern: "POST /payments/{id}/refunds", HTTP: required},
			{Pattern: "POST /Über%20uns/{rest...}", HTTP: required},
			{Pattern: "/dirs/", HTTP: required},
			{Pattern: "/open/", Unguarded: true},
			{Pattern: "/api/", Unguarded: true},
			{Pattern: "POST /api/v1", HTTP: required},
			{Pattern: "POST /case"},
			{Pattern: "POST /CASE", HTTP: required},
			{Pattern: "POST /both", HTTP: required},
			{Pattern: "POST /both/"},
			{Pattern: "POST /items/{id}"},
			{Pattern: "POST /items/new", HTTP: required},
			{Pattern: "POST Pay.example.com/x", HTTP: required},
		}
	})
	for _, c := range []struct {
		path   string
		status int // without a key
	}{
		{"/payments", 400},
		{"/payments/", 400},
		{"/payments//", 400},
		{"//payments", 400},
		{"/%2e/payments", 400},
		{"/./payments", 400},
		{"/x/%2e%2e/payments", 400},
		{"/x/.%2E/payments", 400},
		{"/x/../payments", 400},
		{"/../payments", 400},
		{"/x/..;/payments", 400},
		{"/x%2f..%2fpayments", 400},
		{"/x/..%5cpayments", 400},
		{"/payments;x=1", 400},
		{"/;x=1/payments;y", 400},
		{"/Payments", 400},
		{"/%70ayments", 400},
		{"/payments%2f", 400},
		{"/PAYMENTS/?a=b", 400},
		{"/Payments/17/refunds/", 400},
		{"/%c3%9cBER%20UNS/a/b", 400},
		{"/%c3%bcber%20uns/a", 400},
		{"/dirs", 400},
		{"/DIRS/a", 400},
		{"/open/../payments", 400},
		{"/open/%2e%2e/payments", 400},
		{"/open/..;/payments", 400},
		{"/open/%2e%2e%2fpayments", 400},
		{"/api/v1/", 400},
		{"/api/V1", 400},
		{"/CASE", 400},
		{"/items/new/", 400},
		{"/both", 400},

		// Exact matches, and other paths, are what they were.
		{"/payments/17", 200},
		{"/paymentsx", 200},
		{"/pay/ments", 200},
		{"/payments/x", 200},
		{"/payments/../other", 200},
		{"/open/x", 200},
		{"/open/payments", 200},
		{"/api/v2", 200},
		{"/api/v1/x", 200},
		{"/case", 200},
		{"/both/", 200},
		{"/items/17", 200},
		{"/items/New", 200},
		{"/", 200},
		{"/x", 200},
		{"/%zz", 400}, // of net/http
	} {
		t.Run(c.path, func(t *testing.T) {
			want(t, "status", k.rawPost("x", c.path, ""), c.status)
			if c.status == 200 {
				want(t, "forwarded", up.last().RequestURI, c.path)
			}
		})
	}
	want(t, "a host in other letters", k.rawPost("PAY.EXAMPLE.com", "/X", ""), 400)
	want(t, "another host", k.rawPost("other.example.com", "/x", ""), 200)
	want(t, "with a key", k.rawPost("x", "/x/%2e%2e/Payments/;a=b?c", "k"), 200)
	want(t, "forwarded", up.last().RequestURI, "/x/%2e%2e/Payments/;a=b?c")
}

// A key that is made of the path is the same however the path is written, but for the letters of its values.
//
// Seen to fail with setPathValues taken out: the request is refused for want of a key.
func TestPathValuesOfALenientMatch(t *testing.T) {
	up := newUpstream(t, ok)
	k := newKit(t, up.URL, func(s *setup) {
		natural := httpsafe.Options{KeySource: httpsafe.NaturalKey{PathValues: []string{"id", "rest"}}}
		s.options.Routes = []proxy.Route{{Pattern: "POST /orders/{id}/pay/{rest...}", HTTP: natural}}
	})
	want(t, "first", k.rawPost("x", "/orders/A%207/pay/now/a", ""), 200)
	digest := k.nextEvent().Key
	for path, same := range map[string]bool{
		"/Orders/A%207/pay/now/a/": true,
		"//orders/A%207/PAY/now/a": true,
		"/orders/a%207/PAY/now/a":  false,
		"/orders/A%208/pay/now/a/": false,
		"/orders/A%207/pay/now/b/": false,
	} {
		// The same key for a path that is written otherwise is a mismatch: it cannot be told that nothing else differs.
		want(t, path, k.rawPost("x", path, ""), map[bool]int{true: 422, false: 200}[same])
		report := k.nextEvent()
		want(t, path+" route", report.Route, "POST /orders/{id}/pay/{rest...}")
		want(t, path+" key", report.Key == digest, same)
	}
}

// A route may have an upstream of its own, in another version of HTTP than that of the others. Requests without a key, and
// those of unguarded routes, go there too.
//
// Seen to fail with the URL left out of upstreamOf, and with one transport for all (the upstream with h2c was spoken to in
// HTTP/1.1).
func TestRoutesWithUpstreamsOfTheirOwn(t *testing.T) {
	shop, carts, files := newUpstream(t, ok), newUpstream(t, ok), newUpstream(t, ok)
	at := func(up *upstream, scheme, path string) *url.URL {
		return &url.URL{Scheme: scheme, Host: up.Listener.Addr().String(), Path: path}
	}
	k := newKit(t, shop.URL, func(s *setup) {
		s.options.Routes = []proxy.Route{
			{Pattern: "/carts/", Upstream: at(carts, "h2c", "/v2")},
			{Pattern: "POST files.example.com/", Upstream: at(files, "http", ""), Unguarded: true},
		}
	})
	k.post("/carts/1", "x", "key-1")
	k.post("/carts/1", "x", "key-1")
	if n, r := carts.count(), carts.last(); n != 1 || r.URL.Path != "/v2/carts/1" || r.ProtoMajor != 2 {
		t.Errorf("the upstream of /carts/ got %d requests, the last for %s in HTTP/%d", n, r.URL.Path, r.ProtoMajor)
	}
	k.send("GET", "/carts/2", "")
	if r := carts.last(); r.URL.Path != "/v2/carts/2" {
		t.Errorf("a request without a key went to %s", r.URL.Path)
	}
	k.rawPost("files.example.com", "/a", "key-2")
	k.post("/orders", "x", "key-3")
	if files.count() != 1 || shop.count() != 1 || shop.last().URL.Path != "/orders" || carts.count() != 2 {
		t.Errorf("the upstreams got %d, %d and %d requests; want 1, 1 and 2", files.count(), shop.count(), carts.count())
	}
	_, err := proxy.New(k.guard, httpsafe.ScopeNone(), proxy.Options{
		Upstream: proxy.Upstream{URL: at(shop, "http", "")},
		Routes:   []proxy.Route{{Pattern: "POST /a", Upstream: at(shop, "ftp", "")}},
	})
	if err == nil || !strings.Contains(err.Error(), `route "POST /a"`) {
		t.Errorf("an upstream that speaks FTP: %v", err)
	}
}
