package httpclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
)

// ClientOptions of a Client. ClientOptions{} works.
type ClientOptions struct {
	// Transport sends, and says how. See TransportOptions.
	Transport TransportOptions
	// Jar keeps cookies. Default: none are kept.
	Jar http.CookieJar
	// ResumeConcurrency is how many intents one call of Resume sends at once. Default 8; 1: one after the other.
	ResumeConcurrency int
}

const defaultResumeConcurrency = 8

// Client sends requests that are safe to retry, and goes on after a restart with those whose outcome it does not know. It
// is a Transport with a journal in its hands; without one, an http.Client with the Transport does the same.
//
// A Client is safe for concurrent use.
type Client struct {
	transport     *Transport
	http          http.Client
	resumesAtOnce int
}

// NewClient returns a Client, or the error that NewTransport has, or one for a negative ResumeConcurrency.
func NewClient(o ClientOptions) (*Client, error) {
	if o.ResumeConcurrency < 0 {
		return nil, fmt.Errorf("httpsafe: a ResumeConcurrency of %d is negative", o.ResumeConcurrency)
	}
	t, err := NewTransport(o.Transport)
	if err != nil {
		return nil, err
	}
	return &Client{
		transport: t, http: http.Client{Transport: t, Jar: o.Jar},
		resumesAtOnce: orDefault(o.ResumeConcurrency, defaultResumeConcurrency),
	}, nil
}

// Do sends a request as http.Client does, with the key of ctx (WithIntent, WithKey), and as often as Transport does. The
// caller closes the response's body; with a journal, that says that the caller has the answer, and the intent is forgotten.
// What Close returns is the journal's error: an intent that could not be forgotten is only sent and answered again.
//
// Both ctx and the request's own context count: the request ends with whichever ends first, and has the attempt, the
// step, the intent and the credential of ctx, or what ctx lacks of these from r.Context(). If the two belong to different
// attempts of a Guard, Do returns an error and sends nothing.
//
// Errors are those of Transport.RoundTrip. They hold neither key nor URL.
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
