package config

import (
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/extproc"
)

// Seen to fail with sendThroughEnvoy not called in Config.Proxy.
func TestEnvoySendsTheRequests(t *testing.T) {
	c := mustParse(t, "ext_proc: true\nroutes:\n  POST /large: {max_request: 5MiB}\n"+
		"  POST /charges: {complete: upstream}\n")
	if err := c.FillIn(); err != nil {
		t.Fatal(err)
	}
	o, err := c.Proxy()
	if err != nil {
		t.Fatal(err)
	}
	_, isEnvoys := o.Transport.(extproc.Transport)
	want(t, "transport", isEnvoys && o.Upstream.PreserveHost && o.Upstream.TrustForwarded, true)
	want(t, "the largest message", c.ExtProcOptions().MaxMessage, 5<<20+64<<10)
	want(t, "the largest answer", c.ExtProcOptions().MaxAnswer, 32<<20)
	want(t, "upstreams", len(c.Upstreams()), 0)
	for source, unkeyed := range map[string]bool{
		"upstream: http://a\n": false,
		"upstream: http://a\next_proc: true\nroutes: {POST /x: {in_flight: status, upstream: 'http://b'}}\n": true,
	} {
		c := mustParse(t, source)
		if o, err = c.Proxy(); err != nil {
			t.Fatal(err)
		}
		want(t, "the proxy sends requests with a key", o.Transport == nil, true)
		want(t, "Envoy sends the others", o.Unkeyed != nil, unkeyed)
	}
}

// An answer that is stored can be replayed, however large it may be.
//
// Seen to fail with MaxAnswer left out of ExtProcOptions: the answer was stored, and each retry got 500.
func TestTheLargestAnswerCanBeReplayed(t *testing.T) {
	c := mustParse(t, "ext_proc: true\nupstream: http://a\nroutes:\n  POST /large: {max_response: 48MiB}\n")
	if err := c.FillIn(); err != nil {
		t.Fatal(err)
	}
	want(t, "the largest answer", c.ExtProcOptions().MaxAnswer, 48<<20)
}

// Each setting that needs requests to be sent by the proxy is refused where it is written, and docs/envoy.md lists it.
//
// Seen to fail with checkExtProc that returns at once.
func TestWhatExtProcCannotHave(t *testing.T) {
	for _, c := range []struct{ source, says string }{
		{"scope: mtls\n", "a header that Envoy sets"},
		{"defaults: {upstream: 'http://a'}\n", "leave this one out"},
		{"routes:\n  POST /x: {mode: observe}\n", "leave mode out"},
		{"routes:\n  POST /x: {stream: true}\n", "leave stream out"},
		{"routes:\n  POST /x: {accept: inbox}\n", "leave accept out"},
		{"routes:\n  POST /x: {in_flight: status}\n", "or in_flight: wait:5s or reject"},
		{"routes:\n  POST /x: {complete: upstream, attempts: 2}\n", "leave attempts out"},
	} {
		_, err := Parse("proxy.yaml", []byte("ext_proc: true\n"+c.source))
		if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "with ext_proc ") {
			t.Errorf("%s: %v", c.source, err)
		}
	}
}
