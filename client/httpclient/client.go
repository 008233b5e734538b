package httpclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/retrysafe/retrysafe/client"
)

// Client sends requests that are safe to retry, and resumes after a restart those whose outcome it does not know. It
// is a Transport that can read its journal; without a journal, an http.Client with the Transport does the same.
//
// A Client is safe for concurrent use.
type Client struct {
	transport *Transport
	http      http.Client
}

// New returns a Client. It panics if o.Validate returns an error.
func New(o Options) *Client {
	t := NewTransport(o)
	return &Client{transport: t, http: http.Client{Transport: t, CheckRedirect: t.checkRedirect}}
}

// Do sends a request as http.Client does, except that it follows no redirect of a request with a key but a 307 or 308
// to the same origin: the 303 is the answer. It sends the request with the key of ctx (client.WithIntent,
// client.WithKey), and as often as Transport does. The caller closes the response's body; with a journal, that says
// that the caller has the answer, and the intent is forgotten, unless reading the body has failed. The error of Close
// may be the journal's: an intent that could not be forgotten is only sent and answered again.
//
// Both ctx and the request's own context count: the request ends with whichever ends first, and has the attempt, the
// step, the intent and the credential of ctx, or what ctx lacks of these from r.Context(). If the two belong to
// different attempts of a Guard, Do returns an error and sends nothing.
//
// Errors are those of [Transport.RoundTrip]. They hold neither key nor URL.
func (c *Client) Do(ctx context.Context, r *http.Request) (*http.Response, error) {
	ctx, done, err := joinContexts(ctx, r.Context())
	if err != nil {
		return nil, err
	}
	response, err := c.http.Do(r.WithContext(ctx))
	if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	if err != nil {
		done()
		return nil, err
	}
	if response.StatusCode != http.StatusSwitchingProtocols { // that connection's body can be written to as well
		response.Body = &closing{ReadCloser: response.Body, after: func() error { done(); return nil }}
	}
	return response, nil
}

// CloseIdleConnections closes the connections that nothing uses.
func (c *Client) CloseIdleConnections() { c.transport.CloseIdleConnections() }

// Resumed is an intent of the journal that was sent again, and what came of it. Resume closes the response's body.
type Resumed = client.Resumed[*http.Response]

// Resume sends what the journal has pending again, with the same key and the same bytes, and hands what comes of each
// to result. Call it after a start, and then from time to time. When result returns nil, a final answer is forgotten;
// if it returns an error, or the process ends, the intent is resumed again, and the server gives the same answer
// again. Intents that this Client is sending right now are left alone, as are those of gRPC and of clients with another Options.Name in
// the same journal.
//
// Options.ResumeConcurrency intents are sent at once, and result is called by as many goroutines at once. The oldest
// are begun first, but servers share the places, so that a server which does not answer holds up its own intents only.
// With a ResumeConcurrency of 1 there is one intent after the other, strictly oldest first.
//
// Entries past the horizon are not sent: result gets client.ErrOutcomeUnknown once, and the journal keeps them for
// people.
//
// When ctx ends no further intent is begun, and those on their way are interrupted. Resume returns once result has
// returned for all that were begun.
//
// Resume returns the journal's error or the context's, joined with those of result. Without a Journal it does nothing.
func (c *Client) Resume(ctx context.Context, result func(ctx context.Context, r Resumed) error) error {
	origin := func(e client.Entry) string {
		u, err := url.Parse(e.URL)
		if err != nil || strings.HasPrefix(e.Method, "/") { // a call over gRPC
			return ""
		}
		return originOf(u)
	}
	return client.Resume(ctx, c.transport.engine, origin, c.transport.again, func(ctx context.Context, r Resumed) error {
		if r.Response != nil {
			defer r.Response.Body.Close()
		}
		return result(ctx, r)
	})
}

// again sends the request of an entry.
func (t *Transport) again(ctx context.Context, e client.Entry) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, e.Method, e.URL, bytes.NewReader(e.Body))
	if err != nil {
		return nil, fmt.Errorf("httpclient: %v: %w", e, err)
	}
	r.Header = e.Header.Clone()
	if host := r.Header.Get("Host"); host != "" {
		r.Host = host
		r.Header.Del("Host")
	}
	for name, values := range r.Header {
		if trailer, ok := strings.CutPrefix(name, http.TrailerPrefix); ok {
			if r.Trailer == nil {
				r.Trailer = http.Header{}
			}
			r.Trailer[trailer] = values
			delete(r.Header, name)
		}
	}
	return t.do(r)
}
