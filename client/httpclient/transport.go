package httpclient

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/retrysafe/retrysafe/client"
	"github.com/retrysafe/retrysafe/httpkey"
)

// Transport is an http.RoundTripper that makes requests safe to retry, and retries them. A request of a guarded method
// gets a key, one for each intent, which all attempts at it share; its body is read once and sent as it was each time.
//
// What the server's answer means is in the table of docs/client.md. If it is unknown whether the operation ran, the
// error is a *client.OutcomeUnknownError: there is never a second key for the same intent.
//
// The key is, in this order: the one that the request has; that of client.WithKey or client.WithIntent; inside an
// attempt of a Guard the child key, see client.WithOperation; a new one, unless RequireKey forbids it. The request
// given is not changed.
//
// Use it only with a server that honours keys: one that ignores them runs each attempt.
//
// A Transport is safe for concurrent use.
type Transport struct {
	engine  *client.Engine
	options Options
	carrier keyCarrier
}

// NewTransport returns a Transport. It panics if o.Validate returns an error.
func NewTransport(o Options) *Transport {
	if err := o.Validate(); err != nil {
		panic(err.Error())
	}
	o = o.withDefaults()
	return &Transport{engine: client.NewEngine(o.Options), options: o, carrier: newCarrier(o.Profile)}
}

// RoundTrip implements http.RoundTripper.
//
// Errors, beside those of the network: one that is client.ErrOutcomeUnknown; one that is client.ErrNotReplayable,
// after which the operation has ended, but its answer was not kept; *httpkey.Error for a key that does not have
// the profile's form; client.ErrKeyRequired; client.ErrUnnamedCall; [ErrBodyTooLarge]; [ErrRedirected];
// retrysafe.ErrMismatch for a key or an operation that was used for another request before. Unless the error is one of
// the first two, nothing was sent, or what was sent did not run.
//
// An http.Client with a Transport follows redirects as its CheckRedirect says: a 303 after a request with a key by a
// GET. If that fails, the error is client.ErrNotReplayable too, with the status and the Location of the redirect. Let
// CheckRedirect return http.ErrUseLastResponse to get the redirect itself, as Client does.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !slices.Contains(t.options.Methods, r.Method) {
		return t.pass(r)
	}
	return t.do(r)
}

// pass sends a request that gets no key: once, if it may have an effect.
func (t *Transport) pass(r *http.Request) (*http.Response, error) {
	if !httpkey.IsSafe(r.Method) {
		r = r.Clone(r.Context())
		SendOnce(r)
	}
	response, err := t.options.Base.RoundTrip(r)
	if err != nil {
		return nil, t.afterRedirect(r, err)
	}
	return response, nil
}

// checkRedirect keeps http.Client from following the redirect of a request with a key: it is the answer.
func (t *Transport) checkRedirect(r *http.Request, via []*http.Request) error {
	switch {
	case slices.Contains(t.options.Methods, via[len(via)-1].Method):
		return http.ErrUseLastResponse
	case len(via) >= maxHops:
		return fmt.Errorf("httpclient: stopped after %d redirects", maxHops)
	}
	return nil
}

// afterRedirect returns the error of a request that may follow a redirect. If the redirect was the answer to a request
// with a key, that operation has ended, and its answer is lost: http.Client drops it when it follows.
func (t *Transport) afterRedirect(r *http.Request, err error) error {
	for answer := r.Response; answer != nil && answer.Request != nil; answer = answer.Request.Response {
		if from := answer.Request; slices.Contains(t.options.Methods, from.Method) {
			header := answer.Header.Clone()
			for _, name := range t.carrier.aliases {
				header.Del(name)
			}
			return &client.NotReplayableError{
				Method: from.Method, Origin: originOf(from.URL), Status: answer.StatusCode, Header: header, Err: err,
			}
		}
	}
	return err
}

// do sends a request that gets a key.
func (t *Transport) do(r *http.Request) (*http.Response, error) {
	c, err := t.prepare(r)
	if err != nil {
		return nil, err
	}
	done, err := t.engine.Do(c.ctx, c.describe(), c)
	if err != nil {
		return nil, err
	}
	c.nameLocation()
	c.response.Body = &answer{ReadCloser: c.response.Body, done: done}
	return c.response, nil
}

// CloseIdleConnections closes the connections of Base that nothing uses.
func (t *Transport) CloseIdleConnections() {
	if base, ok := t.options.Base.(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}
