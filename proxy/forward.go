package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpkey"
	"github.com/retrysafe/retrysafe/httpsafe"
)

// upstreamOperation names the call to the upstream among the calls that an attempt makes: its child key is derived
// from it.
const upstreamOperation = "upstream"

// forwarder sends requests to the upstream. Those with a key are the work of an attempt; others are passed through.
type forwarder struct {
	reverse httputil.ReverseProxy
	target  *url.URL
	route   Route
	policy  retrysafe.Policy
	limit   int64 // of an answer that is stored, in bytes
	bodies  bodyPool
	sharing
}

// sharing is what all forwarders have in common.
type sharing struct {
	upstream  Upstream
	transport http.RoundTripper
	unkeyed   http.RoundTripper // nil: transport
	buffers   *copyBuffers
	errorLog  *log.Logger
	options   httpsafe.Options
	auth      *authorizer
	admission *admission
	announced []announcement
	trace     TraceFunc
	limits    Limits // those that come into force with the route

	observation *httpsafe.Observation // nil: none
}

func newForwarder(s sharing, route Route, policy retrysafe.Policy) *forwarder {
	f := &forwarder{target: s.upstream.target(), route: route, policy: policy, limit: int64(policy.MaxResult), sharing: s}
	f.reverse = httputil.ReverseProxy{
		Rewrite:        f.rewrite,
		Transport:      once{s.transport, orElse(s.unkeyed, s.transport)},
		ModifyResponse: f.modify,
		ErrorHandler:   f.failed,
		BufferPool:     s.buffers,
		ErrorLog:       s.errorLog,
	}
	return f
}

// ServeHTTP implements http.Handler.
func (f *forwarder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).EnableFullDuplex() // an error is that of a server that cannot, or does so anyway
	ctx := r.Context()
	entry := logEntryOf(ctx)
	if entry != nil {
		entry.pass()
		noteNotSent(ctx, false) // of an attempt before this one
	}
	if _, ok := retrysafe.AttemptFrom(ctx); !ok || entry == nil {
		f.reverse.ServeHTTP(w, r)
		return
	}
	entry.begin(ctx, w)
	defer entry.holder.allowWait(0)
	f.reverse.ServeHTTP(&entry.patient, r)
}

// rewrite makes the request that the upstream gets.
func (f *forwarder) rewrite(p *httputil.ProxyRequest) {
	query := p.In.URL.RawQuery
	p.SetURL(f.target)
	p.Out.URL.RawQuery = query // as it came, even if Go cannot parse it
	if f.upstream.PreserveHost {
		p.Out.Host = p.In.Host
	}
	setForwarded(p, f.upstream.TrustForwarded)
	if !isWebSocket(p.Out) { // a tunnel for another protocol (h2c) would carry requests past the keys
		p.Out.Header.Del("Connection")
		p.Out.Header.Del("Upgrade")
		p.Out.Header.Del("HTTP2-Settings")
	}
	f.askWhole(p.Out)
	p.Out.Trailer = p.In.Trailer // the same map: it fills while the body is read
	if len(p.Out.Trailer) > 0 && p.Out.Body != nil {
		p.Out.ContentLength = -1
	}
	a, isAttempt := retrysafe.AttemptFrom(p.In.Context())
	if isAttempt {
		f.describeAttempt(p.Out, a)
	}
	if _, ok := p.In.Body.(*holder); p.In.ProtoMajor > 1 && p.Out.Body != nil && (ok || !isAttempt) {
		// A holder, or what observes one. Its Close says something, unlike that of what ReverseProxy of Go 1.26 puts around it.
		p.Out.Body = p.In.Body
	}
	sendInOneWrite(p)
}

// largestCopied bounds the bodies that are copied to be sent together with the header, in bytes.
const largestCopied = 4 << 10

// sendInOneWrite gives the upstream's request a copy of a small body that is in memory already. net/http writes a header
// by itself, and the body after it, unless the body has one of the types that it knows to be in memory. The copy
// belongs to the Transport, which may read it after the handler has returned.
func sendInOneWrite(p *httputil.ProxyRequest) {
	inMemory, ok := p.In.Body.(interface{ Len() int })
	if !ok || p.In.ContentLength != int64(inMemory.Len()) || p.In.ContentLength > largestCopied {
		return
	}
	body := make([]byte, p.In.ContentLength)
	if _, err := io.ReadFull(p.In.Body, body); err == nil {
		p.Out.Body = io.NopCloser(bytes.NewReader(body))
	}
}

// setForwarded says on whose behalf a request is sent. If trusted, what the request itself says of that is kept.
func setForwarded(p *httputil.ProxyRequest, trusted bool) {
	removeImitations(p.Out.Header, "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto")
	if !trusted {
		p.SetXForwarded()
		return
	}
	chain := p.In.Header["X-Forwarded-For"]
	p.Out.Header["X-Forwarded-For"] = chain
	p.SetXForwarded()
	if p.In.RemoteAddr == "" && len(chain) > 0 { // as with ext_proc: Envoy has added the address that it sees
		p.Out.Header["X-Forwarded-For"] = chain
	}
	for _, name := range []string{"X-Forwarded-Host", "X-Forwarded-Proto", "Forwarded"} {
		if values := p.In.Header[name]; len(values) > 0 {
			p.Out.Header[name] = values
		}
	}
}

// describeAttempt adds the headers about the attempt. The body is already in memory, so the upstream need not be
// asked whether it wants it (Expect).
func (f *forwarder) describeAttempt(out *http.Request, a *retrysafe.Attempt) {
	out.Header.Del("Expect")
	removeImitations(out.Header, f.route.UpstreamKey, f.route.AttemptHeader)
	if f.route.UpstreamKey != "" {
		out.Header.Set(f.route.UpstreamKey, a.ChildKey(upstreamOperation))
	}
	if f.route.AttemptHeader != "" {
		out.Header.Set(f.route.AttemptHeader, strconv.Itoa(a.Number()))
	}
	if f.completedElsewhere() {
		handOver(out.Header, a)
	}
}

// isWebSocket reports whether a request asks for a WebSocket, the only protocol that may replace HTTP on a
// connection.
func isWebSocket(r *http.Request) bool {
	return strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}

// modify prepares an answer before it is passed on. The answer to a request with a key is fetched, unless it is to be
// streamed.
func (f *forwarder) modify(res *http.Response) error {
	if res.StatusCode < 100 { // net/http would refuse to write it, and close the client's connection
		return &brokenAnswer{fmt.Errorf("status %03d", res.StatusCode)}
	}
	removeLease(res.Header)
	removeLease(res.Trailer)
	if len(res.Trailer) > 0 {
		res.Header.Del("Content-Length") // which HTTP/2 allows beside trailers, and HTTP/1 does not
	}
	if err := f.announce(res); err != nil {
		return err
	}
	entry := logEntryOf(res.Request.Context())
	if entry == nil && saysNothingHappened(res, nil) {
		_ = httpsafe.Release(res.Request.Context()) // of an observed request; others have no key
	}
	if entry == nil || entry.watch.base == nil || res.StatusCode == http.StatusSwitchingProtocols {
		return nil
	}
	entry.letClientWait()
	if whole := f.completedElsewhere(); whole || !f.route.Stream && !isEventStream(res.Header) {
		if err := f.fetch(res, entry, whole); err != nil {
			return err
		}
		removeLease(res.Trailer) // which came with the body
	} else {
		res.Body = &watchedBody{res.Body, entry}
	}
	if saysNothingHappened(res, entry.fetched.read) {
		return httpsafe.Release(res.Request.Context())
	}
	return nil
}

// failed answers if the upstream has not.
func (f *forwarder) failed(w http.ResponseWriter, r *http.Request, err error) {
	ctx := r.Context()
	logEntryOf(ctx).fail(err)
	switch hold, passedThrough := w.(*holder); {
	case passedThrough && hold.gaveUpBody():
		f.options.WriteProblem(w, slowBody())
	case nothingHappened(ctx, err):
		noteNotSent(ctx, true)
		if f.completedElsewhere() {
			_ = httpsafe.Ambiguous(ctx) // it is released, too, and may be sent again
		} else {
			_ = httpsafe.Release(ctx) // fails for a request without a key, which has nothing to release
		}
		f.options.WriteProblem(w, problem(UpstreamUnreachable))
	case f.fences(ctx):
		_ = httpsafe.Ambiguous(ctx)
		f.options.WriteProblem(w, problem(UpstreamFenced))
	case timedOut(err):
		f.answerUnknown(w, r, UpstreamTimeout)
	default:
		f.answerUnknown(w, r, UpstreamFailed)
	}
}

// noteNotSent tells the inbox whose request this is, if it is one's, whether the upstream got nothing of it.
func noteNotSent(ctx context.Context, notSent bool) {
	if entry := logEntryOf(ctx); entry != nil {
		if d := httpsafe.DeliveryFrom(entry.holder.request.Context()); d != nil {
			d.NotSent = notSent
		}
	}
}

// completedElsewhere reports whether the upstream completes the keys of this route.
func (f *forwarder) completedElsewhere() bool { return f.route.HTTP.CompletedElsewhere }

// fences reports whether an attempt without an answer is given up so that the upstream can no longer complete its key.
// The answer that says so is sent only if that was possible.
func (f *forwarder) fences(ctx context.Context) bool {
	_, hasKey := retrysafe.AttemptFrom(ctx)
	return hasKey && f.completedElsewhere() &&
		(f.route.HTTP.Ambiguous == 0 || f.route.HTTP.Ambiguous == retrysafe.AmbiguousRelease)
}

// answerUnknown says that it is unknown whether the operation ran, and what to do. The profile's classes do not
// apply: an API may free the key after a failure of its own, because it knows what happened.
func (f *forwarder) answerUnknown(w http.ResponseWriter, r *http.Request, slug httpsafe.Slug) {
	p := problem(slug)
	a, hasKey := retrysafe.AttemptFrom(r.Context())
	switch {
	case !hasKey && httpkey.IsSafe(r.Method):
	case !hasKey:
		_ = httpsafe.Ambiguous(r.Context()) // of an observed request; others have nothing to decide
		p.Detail += " Find out whether it ran before you send it again."
	case f.route.HTTP.Ambiguous == retrysafe.AmbiguousRelease:
		p.Retryable = true
		p.Detail += " Retry with the same key to run it again."
	case f.policy.OnAbandoned.Resumes():
		p.Retryable = true
		p.Detail += " Retry with the same key to resume it."
	default:
		p.Detail += " A retry with the same key does not run it again. " +
			"Find out whether it ran; if it did not, send it with a new key."
	}
	if hasKey {
		p.Instance = f.route.HTTP.Instance(a.Key())
		_ = httpsafe.Ambiguous(r.Context())
	}
	f.options.WriteProblem(w, p)
}

// nothingHappened reports whether a request that got no answer certainly had no effect.
func nothingHappened(ctx context.Context, err error) bool {
	if answer := new(brokenAnswer); errors.As(err, &answer) {
		return false
	}
	w := watchOf(ctx)
	if w == nil {
		var op *net.OpError
		return errors.As(err, &op) && op.Op == "dial" || notProcessed(err)
	}
	return w.nothingSent(ctx) || w.sentOnce() && notProcessed(err)
}

func timedOut(err error) bool {
	var e net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &e) && e.Timeout()
}
