package proxy

import (
	"context"
	"errors"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
)

// upstreamOperation names the call to the upstream among the downstream calls of an attempt: its child key is derived
// from it.
const upstreamOperation = "upstream"

// forwarder sends requests to the upstream. Those with a key come as the work of an attempt; others pass through.
type forwarder struct {
	reverse httputil.ReverseProxy
	target  *url.URL
	route   Route
	limit   int64 // of an answer that is kept
	bodies  bodyPool
	sharing
}

// sharing is what all forwarders have in common.
type sharing struct {
	upstream  Upstream
	transport http.RoundTripper
	buffers   *copyBuffers
	errorLog  *log.Logger
	problems  problemWriter
}

func newForwarder(s sharing, route Route, policy retrysafe.Policy) *forwarder {
	f := &forwarder{target: s.upstream.target(), route: route, limit: int64(policy.MaxResult), sharing: s}
	f.reverse = httputil.ReverseProxy{
		Rewrite:        f.rewrite,
		Transport:      once{s.transport},
		ModifyResponse: f.modify,
		ErrorHandler:   f.failed,
		BufferPool:     s.buffers,
		ErrorLog:       s.errorLog,
	}
	return f
}

// ServeHTTP implements http.Handler.
func (f *forwarder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	s := storyOf(ctx)
	if s != nil {
		s.pass()
	}
	if _, ok := retrysafe.AttemptFrom(ctx); !ok || s == nil {
		f.reverse.ServeHTTP(w, r)
		return
	}
	s.watch.base, s.patient.ResponseWriter = ctx, w
	f.reverse.ServeHTTP(&s.patient, r)
}

// rewrite makes the request that the upstream gets.
func (f *forwarder) rewrite(p *httputil.ProxyRequest) {
	query := p.In.URL.RawQuery
	p.SetURL(f.target)
	p.Out.URL.RawQuery = query // as it came, whether or not Go can parse it
	if f.upstream.PreserveHost {
		p.Out.Host = p.In.Host
	}
	f.setForwarded(p)
	p.Out.Trailer = p.In.Trailer // the same map: it fills while the body is read
	if len(p.Out.Trailer) > 0 && p.Out.Body != nil {
		p.Out.ContentLength = -1
	}
	if a, ok := retrysafe.AttemptFrom(p.In.Context()); ok {
		f.describeAttempt(p.Out, a)
	}
}

func (f *forwarder) setForwarded(p *httputil.ProxyRequest) {
	if !f.upstream.TrustForwarded {
		p.SetXForwarded()
		return
	}
	p.Out.Header["X-Forwarded-For"] = p.In.Header["X-Forwarded-For"]
	p.SetXForwarded()
	for _, name := range []string{"X-Forwarded-Host", "X-Forwarded-Proto", "Forwarded"} {
		if values := p.In.Header[name]; len(values) > 0 {
			p.Out.Header[name] = values
		}
	}
}

// describeAttempt tells the upstream what it is to know of the attempt. The body is in hand, so nobody need wait for the
// upstream to ask for it.
func (f *forwarder) describeAttempt(out *http.Request, a *retrysafe.Attempt) {
	out.Header.Del("Expect")
	if f.route.UpstreamKey != "" {
		out.Header.Set(f.route.UpstreamKey, a.ChildKey(upstreamOperation))
	}
	if f.route.AttemptHeader != "" {
		out.Header.Set(f.route.AttemptHeader, strconv.Itoa(a.Number()))
	}
}

// modify makes an answer ready to be passed on. That to a request with a key is fetched, unless it is to be streamed.
func (f *forwarder) modify(res *http.Response) error {
	if len(res.Trailer) > 0 {
		res.Header.Del("Content-Length") // which HTTP/2 allows beside trailers, and HTTP/1 does not
	}
	s := storyOf(res.Request.Context())
	if s == nil || s.watch.base == nil {
		return nil
	}
	if f.route.Stream || res.StatusCode == http.StatusSwitchingProtocols || isEventStream(res.Header) {
		return nil
	}
	return f.fetch(res, &s.fetched)
}

// failed answers when the upstream has not.
func (f *forwarder) failed(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case nothingSent(r.Context(), err):
		_ = httpsafe.Release(r.Context()) // fails without a key, which is as well
		f.problems.write(w, UpstreamUnreachable)
	case timedOut(err):
		f.problems.write(w, UpstreamTimeout)
	default:
		f.problems.write(w, UpstreamFailed)
	}
}

// nothingSent reports whether the upstream cannot have seen anything of the request.
func nothingSent(ctx context.Context, err error) bool {
	if answer := new(brokenAnswer); errors.As(err, &answer) {
		return false
	}
	if w := watchOf(ctx); w != nil {
		return w.nothingSent(ctx)
	}
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

func timedOut(err error) bool {
	var e net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &e) && e.Timeout()
}
