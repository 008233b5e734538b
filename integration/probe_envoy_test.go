package integration

import (
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/extproc"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/integration/envoy"
	"github.com/retrysafe/retrysafe/internal/testing/pages"
	"github.com/retrysafe/retrysafe/internal/testing/soak"
	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/proxy"
)

// No case of the probe fails behind Envoy, as docs/envoy.md configures it, if the proxy sends the requests with a key.
// If Envoy does, clients that leave make outcomes unknown, and nothing else fails. In make test: without the cases of
// waiting.
//
// Seen to fail without "F07", "F08" and "F09" in what is skipped where Envoy sends.
func TestSoakProbeBehindEnvoy(t *testing.T) {
	t.Parallel()
	skip := waiting()
	if soak.Times(t, 1) > 1 {
		skip = nil
	}
	t.Run("the proxy sends", func(t *testing.T) {
		t.Parallel()
		api := new(orders)
		playAll(t, "the proxy sends", behindEnvoy(t, api, false), probe.Options{Skip: skip})
	})
	t.Run("Envoy sends", func(t *testing.T) {
		t.Parallel()
		api := new(orders)
		recipe := behindEnvoy(t, api, true)
		playAll(t, "Envoy sends", recipe, probe.Options{Skip: slices.Concat(skip, []string{"F07", "F08", "F09"})})
	})
}

// behindEnvoy returns the recipe for an API behind a player of Envoy.
func behindEnvoy(t *testing.T, api *orders, envoySends bool) probe.Recipe {
	t.Helper()
	profile := httpsafe.IETF()
	options := httpsafe.Options{Profile: profile}
	guarded := []proxy.Route{{Pattern: "/orders/late", HTTP: options, Policy: retrysafe.Policy{Timeout: lateAfter}}}
	for _, pattern := range routes() {
		route := proxy.Route{Pattern: pattern, HTTP: options}
		if pattern == "/others" {
			route.HTTP.Fingerprint = httpsafe.FingerprintNone()
		}
		guarded = append(guarded, route)
	}
	service := serve(t, api)
	o := proxy.Options{
		Routes: guarded, Unkeyed: extproc.Transport{},
		Upstream: proxy.Upstream{URL: mustParse(t, service), TrustForwarded: true},
	}
	if envoySends {
		o.Transport, o.Upstream.PreserveHost = extproc.Transport{}, true
	}
	handler, err := proxy.New(newProbedGuard(t, profile), httpsafe.ScopeCredential(), o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{
		Handler: extproc.New(handler, extproc.Options{}), Protocols: new(http.Protocols), ReadHeaderTimeout: time.Minute,
	}
	server.Protocols.SetUnencryptedHTTP2(true)
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })

	config, err := envoy.Parse(pageBlock(t, "../docs/envoy.md", "envoy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	config.Server, config.Service = l.Addr().String(), strings.TrimPrefix(service, "http://")
	config.Filter.MessageTimeout = durationpb.New(time.Minute)
	recipe := api.recipe(t, serve(t, authenticated(envoy.New(t, config))), profile)
	recipe.Variants.Large.Path = "/orders/huge"
	return recipe
}

// pageBlock returns a file that a page shows.
func pageBlock(t *testing.T, page, name string) string {
	t.Helper()
	blocks, err := pages.Read(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range blocks {
		if b.File == name {
			return b.Text
		}
	}
	t.Fatalf("%s has no block with file=%s", page, name)
	return ""
}
