package httpclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/client"
	"github.com/retrysafe/retrysafe/httpkey"
	"github.com/retrysafe/retrysafe/internal/keytext"
)

var (
	// ErrBodyTooLarge is returned for a request with a key whose body is larger than Options.MaxBody. Nothing was sent.
	ErrBodyTooLarge = errors.New("httpclient: the request body is larger than MaxBody and cannot be kept for retries")
	// ErrRedirected is returned if the server redirects a request with a key to another origin, where the key would
	// mean nothing. The redirect was not followed.
	ErrRedirected = errors.New("httpclient: a request with a key is not redirected to another origin")
)

// call is one request on its way, for the engine a client.Exchange.
type call struct {
	t       *Transport
	ctx     context.Context
	request *http.Request // the caller's, which is not changed
	url     *url.URL      // and the rest as it is sent
	header  http.Header
	body    []byte

	reply          // the last
	failures  int  // bare 500s, which Profile.Retries500 bounds
	hops      int  // redirects followed
	refreshed bool // after a 401
	refused   bool // the next request is the one with a new credential
}

// prepare reads the request. Its key is put on a copy of it.
func (t *Transport) prepare(r *http.Request) (*call, error) {
	body, err := freeze(r, t.options.MaxBody)
	if err != nil {
		return nil, err
	}
	if r.Response != nil { // http.Client follows a redirect that we did not
		return nil, ErrRedirected
	}
	c := &call{t: t, ctx: r.Context(), request: r, header: r.Header.Clone(), body: body, url: cloneURL(r.URL)}
	if c.header == nil {
		c.header = http.Header{}
	}
	return c, nil
}

// describe tells the engine what the request is.
func (c *call) describe() client.Request {
	return client.Request{
		Method: c.request.Method, Origin: c.origin(),
		Name:   c.request.Method + " " + c.origin() + c.url.EscapedPath(),
		Digest: retrysafe.NaturalID(c.request.Method, c.url.String(), string(c.body)),
	}
}

// freeze reads the body of a request, which it closes.
func freeze(r *http.Request, limit int64) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	defer r.Body.Close()
	if r.ContentLength > limit {
		return nil, fmt.Errorf("%w: %d bytes, the limit is %d", ErrBodyTooLarge, r.ContentLength, limit)
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("httpclient: read the request body: %w", err)
	case int64(len(body)) > limit:
		return nil, fmt.Errorf("%w: the limit is %d bytes", ErrBodyTooLarge, limit)
	}
	return body, nil
}

// Key implements client.Exchange.
func (c *call) Key() (string, error) { return c.t.carrier.find(c) }

// SetKey implements client.Exchange.
func (c *call) SetKey(key string, derived bool) (string, error) {
	profile := &c.t.options.Profile
	if derived {
		key = inForm(key, profile.KeySyntax)
	}
	if err := c.t.carrier.check(key); err != nil {
		return "", fmt.Errorf("httpclient: a key for profile %q (%v): %w", profile.Name, profile.KeySyntax, err)
	}
	return key, c.t.carrier.put(c, key)
}

// inForm formats a derived key according to the syntax.
func inForm(key string, s httpkey.Syntax) string {
	// a server with UUID4 or UUID7 requires it; the time in a derived version 7 means nothing
	version := map[httpkey.Form]byte{httpkey.UUID: '8', httpkey.UUID4: '4', httpkey.UUID7: '7'}[s.Form]
	if version == 0 {
		return key
	}
	return keytext.UUIDOf(strings.ReplaceAll(key, "-", ""), version)
}

// Journal implements client.Exchange.
func (c *call) Journal(e *client.Entry) error {
	u := cloneURL(c.url)
	u.User = nil // a credential
	e.URL, e.Body, e.Header = u.String(), c.body, http.Header{}
	names := []string{
		"Content-Type", "Content-Encoding", "Accept", "Accept-Language", "If-Match", "If-None-Match", "Prefer",
		c.t.carrier.firstSent,
	}
	names = append(append(names, c.t.carrier.aliases...), c.t.options.JournalHeaders...)
	for _, name := range names {
		name = http.CanonicalHeaderKey(name)
		if values := c.header[name]; len(values) > 0 {
			e.Header[name] = values
		}
	}
	for _, name := range c.t.options.JournalHeaders {
		name = http.CanonicalHeaderKey(name)
		if values := c.request.Trailer[name]; len(values) > 0 { // they are known once the body has been read
			e.Header[http.TrailerPrefix+name] = values
		}
	}
	delete(e.Header, "Host") // net/http sends the request's field of that name, and not this one
	if host := c.request.Host; host != "" && host != u.Host {
		e.Header.Set("Host", host)
	}
	return nil
}

// fresh returns the request for one attempt.
func (c *call) fresh(ctx context.Context, e *client.Entry) *http.Request {
	r := c.request.WithContext(ctx)
	r.URL, r.Header = cloneURL(c.url), c.header.Clone()
	c.t.carrier.setFirstSent(r.Header, e)
	r.Body, r.ContentLength, r.TransferEncoding = nil, int64(len(c.body)), nil
	if len(c.body) > 0 {
		r.Body = io.NopCloser(bytes.NewReader(c.body))
	}
	if len(r.Trailer) > 0 {
		r.ContentLength = -1
	}
	SendOnce(r)
	return r
}

func (c *call) origin() string { return originOf(c.url) }

// originOf returns scheme and host.
func originOf(u *url.URL) string { return u.Scheme + "://" + u.Host }

func cloneURL(u *url.URL) *url.URL {
	clone := *u
	return &clone
}
