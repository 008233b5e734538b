package config

import (
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/extproc"
)

// Seen to fail with sendThroughEnvoy not called in Config.Proxy, and with ExtProcOptions that looks at the defaults only.
func TestEnvoySendsTheRequests(t *testing.T) {
	c := mustParse(t, "ext_proc: true\nroutes:\n  POST /large: {max_request: 5MiB}\n  POST /charges: {complete: upstream}\n")
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
	want(t, "upstreams", len(c.Upstreams()), 0)
	plain := mustParse(t, "upstream: http://a\n")
	if o, err = plain.Proxy(); err != nil {
		t.Fatal(err)
	}
	want(t, "transport without ext_proc", o.Transport == nil, true)
}

// Each setting that needs requests to be sent by the proxy is refused where it is written, and docs/envoy.md lists it.
//
// Seen to fail for each with its line taken out of checkExtProc.
func TestWhatExtProcCannotHave(t *testing.T) {
	for _, c := range []struct{ source, says string }{
		{"upstream: http://a\n", "leave upstream out"},
		{"scope: mtls\n", "a header that Envoy sets"},
		{"defaults: {upstream: 'http://a'}\n", "leave upstream out"},
		{"routes:\n  POST /x: {mode: observe}\n", "leave mode out"},
		{"routes:\n  POST /x: {stream: true}\n", "leave stream out"},
		{"routes:\n  POST /x: {accept: inbox}\n", "leave accept out"},
		{"routes:\n  POST /x: {in_flight: status}\n", "write in_flight: wait:5s or reject"},
		{"routes:\n  POST /x: {complete: upstream, attempts: 2}\n", "leave attempts out"},
	} {
		_, err := Parse("proxy.yaml", []byte("ext_proc: true\n"+c.source))
		if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "with ext_proc ") {
			t.Errorf("%s: %v", c.source, err)
		}
	}
}
