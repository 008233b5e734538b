package extproc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
)

// Transport lets Envoy send the requests of a Server's handler to the service, each once. It is the transport of a
// proxy.Proxy or of an httputil.ReverseProxy. The URL of a request decides nothing: Envoy's routes do. If it is only
// proxy.Options.Unkeyed, the proxy sends requests with a key itself, and Envoy gets their answers.
//
// A request that Envoy cannot send any more fails as one whose connection could not be made: one of work that goes on
// after the handler has answered, and one that was sent already.
type Transport struct{}

var (
	errNotEnvoys = errors.New("extproc: the request was not sent: it did not come from Envoy, or is over for Envoy")
	errNoAnswer  = errors.New("extproc: the service has not answered Envoy")
	errRefused   = errors.New("extproc: Envoy could not connect to the service")
)

// RoundTrip implements http.RoundTripper. A request without a key that was not read gets an answer that is not used:
// that of the service does not pass through here.
func (Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		defer r.Body.Close()
	}
	x, _ := r.Context().Value(exchangeKey{}).(*exchange)
	if x == nil {
		return notSent(r, errNotEnvoys)
	}
	sent, passed, err := x.forward(r)
	switch {
	case !sent:
		return notSent(r, errNotEnvoys)
	case err != nil:
		return nil, err
	case passed:
		return &http.Response{
			StatusCode: http.StatusOK, Proto: "HTTP/2.0", ProtoMajor: 2, Header: http.Header{}, Body: http.NoBody, Request: r,
		}, nil
	}
	return x.receive(r)
}

// notSent says that the service got nothing of a request in the way in which package proxy understands it: a connection
// was wanted, and there was none.
func notSent(r *http.Request, err error) (*http.Response, error) {
	if trace := httptrace.ContextClientTrace(r.Context()); trace != nil && trace.GetConn != nil {
		trace.GetConn("envoy")
	}
	return nil, err
}

// forward tells Envoy to send the request. passed says that nothing more will be heard of it.
func (x *exchange) forward(r *http.Request) (sent, passed bool, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.phase != deciding || x.pending == 0 || x.ctx.Err() != nil {
		return false, false, nil
	}
	change := changes(x.header, r.Header)
	_, isAttempt := retrysafe.AttemptFrom(r.Context())
	switch {
	case x.pending == requestBody:
		return true, false, x.reply(change, nil, forwarded) // the answer's body is asked for since the header
	case isAttempt:
		return true, false, x.reply(change, &mode{response: true, responseBody: bodyPartial}, forwarded)
	}
	return true, true, x.reply(change, &mode{}, over)
}

// receive returns the answer to a request that was forwarded.
func (x *exchange) receive(r *http.Request) (*http.Response, error) {
	err := x.until(r.Context(), nil, func() bool { return x.answer != nil })
	m := x.answer
	x.mu.Unlock()
	switch {
	case err != nil:
		return nil, err
	case m.fromService():
	case !m.wasTried():
		if m.status() >= 500 {
			return notSent(r, errRefused)
		}
		_ = httpsafe.Release(r.Context()) // Envoy has refused it, by another filter for example
	default:
		return nil, errNoAnswer
	}
	res, err := m.response(r)
	if err != nil || m.end || res.ContentLength == 0 {
		return res, err
	}
	return res, x.receiveBody(r, res)
}

// notKept is a Content-Length that says of an answer that it is too large to be stored.
const notKept = 1 << 40

// receiveBody asks for the body of an answer. One that is longer than what Envoy buffers, that has trailers, or whose
// end is not to be waited for, is passed on by Envoy, and not stored.
func (x *exchange) receiveBody(r *http.Request, res *http.Response) error {
	isLong := res.ContentLength > int64(x.options.MaxMessage)
	isEvents := strings.HasPrefix(strings.ToLower(res.Header.Get("Content-Type")), "text/event-stream")
	if isLong || isEvents {
		leaveOut(res)
		return nil
	}
	x.mu.Lock()
	x.asksPart = true
	err := x.reply(mutation{}, nil, answering)
	x.mu.Unlock()
	if err != nil {
		return err
	}
	err = x.until(r.Context(), nil, func() bool { return x.part != nil })
	part := x.part
	x.mu.Unlock()
	if err != nil {
		return err
	}
	res.Body = io.NopCloser(bytes.NewReader(part.body))
	if !part.end && res.ContentLength != int64(len(part.body)) {
		leaveOut(res)
	}
	return nil
}

// leaveOut makes the handler not store an answer, whose body may lack its end.
func leaveOut(res *http.Response) {
	res.ContentLength = notKept
	res.Header.Set("Content-Length", fmt.Sprint(notKept))
}

// response returns the answer that a message is about, without its body.
func (m *message) response(r *http.Request) (*http.Response, error) {
	h, _ := m.headerOf()
	if m.status() < 100 {
		return nil, errors.New("extproc: Envoy's message has no :status")
	}
	return &http.Response{
		StatusCode: m.status(), Proto: "HTTP/2.0", ProtoMajor: 2, Header: h, Body: http.NoBody, ContentLength: lengthOf(h),
		Request: r,
	}, nil
}

func (m *message) status() int {
	_, pseudo := m.headerOf()
	status, _ := strconv.Atoi(pseudo[":status"])
	return status
}

// fromService reports whether an answer is the service's, and not one of Envoy itself. If Envoy does not say so, it is.
func (m *message) fromService() bool { return m.details == "" || m.details == "via_upstream" }

// wasTried reports whether the service may have got something of a request that Envoy itself has answered. If Envoy has
// tried more than once, nothing is known of the tries before the last.
func (m *message) wasTried() bool {
	reason, _, _ := strings.Cut(m.details, "{")
	if reason == "upstream_reset_before_response_started" {
		_, reason, _ = strings.Cut(m.details, "{")
		if end := strings.IndexAny(reason, "|,}"); end >= 0 {
			reason = reason[:end]
		}
	}
	switch {
	case m.attempts == 0:
		return false
	case m.attempts != 1:
		return true
	}
	switch reason {
	case "connection_failure", "local_connection_failure", "remote_connection_failure", "remote_refused_stream_reset",
		"overflow", "no_healthy_upstream", "cluster_not_found", "route_not_found", "no_cluster", "maintenance_mode":
		return false
	}
	return true
}
