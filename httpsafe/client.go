package httpsafe

import (
	"context"
	"errors"
	"net/http"
	"net/url"
)

// ClientOptions of a Client. ClientOptions{} works.
type ClientOptions struct {
	// Transport sends, and says how. See TransportOptions.
	Transport TransportOptions
	// Jar keeps cookies. Default: none are kept.
	Jar http.CookieJar
}

// Client sends requests that are safe to retry, and goes on after a restart with those whose outcome it does not know. It
// is a Transport with a journal in its hands; without one, an http.Client with the Transport does the same.
//
// A Client is safe for concurrent use.
type Client struct {
	transport *Transport
	http      http.Client
}

// NewClient returns a Client, or the error that NewTransport has.
func NewClient(o ClientOptions) (*Client, error) {
	t, err := NewTransport(o.Transport)
	if err != nil {
		return nil, err
	}
	return &Client{transport: t, http: http.Client{Transport: t, Jar: o.Jar}}, nil
}

// Do sends a request as http.Client does, with the key of ctx (WithIntent, WithKey), and as often as Transport does. The
// caller closes the response's body; with a journal, that says that the caller has the answer, and the intent is forgotten.
// What Close returns is the journal's error: an intent that could not be forgotten is only sent and answered again.
//
// Errors are those of Transport.RoundTrip. They hold neither key nor URL.
func (c *Client) Do(ctx context.Context, r *http.Request) (*http.Response, error) {
	response, err := c.http.Do(r.WithContext(ctx))
	if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return response, err
}

// CloseIdleConnections closes the connections that nothing uses.
func (c *Client) CloseIdleConnections() { c.transport.CloseIdleConnections() }

// Resumed is an intent of the journal that was sent again, and what came of it.
type Resumed struct {
	// Entry as the journal has it: its Intent says which one it is.
	Entry JournalEntry
	// Response, if there is one. Resume closes its body.
	Response *http.Response
	// Err otherwise. If it is ErrOutcomeUnknown the journal keeps the intent: for the next Resume, or, when the
	// horizon is past or the server's answer leaves no hope, for people.
	Err error
}

// Resume sends what the journal has pending again, oldest first, with the same key and the same bytes, and hands what comes of
// each to result. Call it after a start, and then from time to time. When result returns nil, a final answer is forgotten;
// if it returns an error, or the process ends, the intent is resumed again, and the server gives the same answer again.
// Intents that this Client is sending right now are left alone.
//
// Entries past the horizon are not sent: result gets ErrOutcomeUnknown once, and the journal keeps them for people.
//
// Resume returns the journal's error or the context's, joined with those of result. Without a Journal it does nothing.
func (c *Client) Resume(ctx context.Context, result func(ctx context.Context, r Resumed) error) error {
	journal := c.transport.options.Journal
	if journal == nil {
		return nil
	}
	entries, err := journal.Entries(ctx)
	if err != nil {
		return err
	}
	var failed []error
	for _, e := range entries {
		if e.GivenUp != "" || c.transport.isRunning(e.ID) {
			continue
		}
		if ctx.Err() != nil {
			return errors.Join(append(failed, ctx.Err())...)
		}
		if err := c.resume(ctx, e, result); err != nil {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// resume sends one entry again.
func (c *Client) resume(ctx context.Context, e JournalEntry, result func(context.Context, Resumed) error) error {
	pending, err := c.transport.again(ctx, e)
	if err != nil {
		return result(ctx, Resumed{Entry: e, Err: err})
	}
	done := c.transport.track(e.ID)
	defer done()
	response, err := c.transport.try(pending)
	if err != nil {
		return errors.Join(result(ctx, Resumed{Entry: e, Err: err}), pending.keep(err))
	}
	defer response.Body.Close()
	if err := result(ctx, Resumed{Entry: e, Response: response}); err != nil {
		return err
	}
	return c.transport.options.Journal.End(context.WithoutCancel(ctx), e.ID)
}
