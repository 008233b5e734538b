package config

import (
	"net/url"

	"github.com/retrysafe/retrysafe/extproc"
	"github.com/retrysafe/retrysafe/internal/yamlfile"
	"github.com/retrysafe/retrysafe/proxy"
)

// checkExtProc finds settings that cannot be had if Envoy asks, and those that need requests to be sent by the proxy
// itself.
func (c *Config) checkExtProc(r *yamlfile.Reader) {
	if !c.ExtProc.Value {
		return
	}
	refuse := func(isSet bool, at yamlfile.Position, why, instead string) {
		if isSet {
			r.FaultAt(at, "with ext_proc "+why, instead)
		}
	}
	refuse(c.Scope.Value == "mtls", c.Scope.At, "the proxy does not see the certificates of clients",
		"write scope: header:NAME with a header that Envoy sets")
	for _, t := range append(c.overridden(), c.Defaults) {
		refuse(t.observes(), t.Mode.At, "requests cannot be observed", "leave mode out")
		refuse(t.Stream.Value, t.Stream.At, "answers reach the client when they are complete", "leave stream out")
		if c.Upstream.URL.Set {
			continue
		}
		const sendsItself = "write upstream: URL at the top of the file too, so that the proxy sends requests with a key, or "
		refuse(t.Upstream.Set, t.Upstream.At, "Envoy's routes decide where requests go", sendsItself+"leave this one out")
		refuse(t.acceptsInbox(), t.Accept.At, "the proxy cannot send a request later", sendsItself+"leave accept out")
		refuse(t.InFlight.Value.Status, t.InFlight.At, "no work goes on after the client has its answer",
			sendsItself+"in_flight: wait:5s or reject")
		refuse(t.Attempts.Value > 1, t.Attempts.At, "Envoy sends a request again, if its route has a retry_policy",
			sendsItself+"leave attempts out")
	}
}

// sendThroughEnvoy has Envoy send the requests without a key, and the others if there is no upstream.
func (c *Config) sendThroughEnvoy(o *proxy.Options) {
	o.Unkeyed, o.Upstream.TrustForwarded = extproc.Transport{}, true
	if !c.Upstream.URL.Set {
		o.Transport = extproc.Transport{}
		o.Upstream.URL, o.Upstream.PreserveHost = &url.URL{Scheme: "http", Host: "envoy"}, true
	}
}

// largestAnswer is what the server that Envoy asks answers with at most, unless a larger answer can be stored, in bytes.
const largestAnswer = 32 << 20

// ExtProcOptions are those of the server that Envoy asks. Its messages hold a body and a header, or a few more bytes, and
// each answer that is stored can be replayed. FillIn comes before.
func (c *Config) ExtProcOptions() extproc.Options {
	var most int64
	for _, t := range append(c.overridden(), c.Defaults) {
		o := t.options(secrets{})
		most = max(most, o.HTTP.WithDefaults().MaxRequestBody, int64(o.Policy.WithDefaults().MaxResult))
	}
	return extproc.Options{MaxMessage: int(most + c.Limits.HeaderBytes.Value), MaxAnswer: int(max(largestAnswer, most))}
}
