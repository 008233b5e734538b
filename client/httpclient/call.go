package httpclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/internal/keytext"
)

// What a Transport refuses to send.
var (
	// ErrBodyTooLarge: the body of a request with a key is larger than TransportOptions.MaxBody. Nothing was sent.
	ErrBodyTooLarge = errors.New("httpsafe: the request body is too large to be kept for retries")
	// ErrRedirected: the server redirects a request with a key to another origin, where the key would mean nothing.
	// It was not followed.
	ErrRedirected = errors.New("httpsafe: a request with a key is not redirected to another origin")
	// ErrUnnamedCall: a second call to the same URL in one attempt of a Guard, or a second one in one retrysafe.Step.
	// Nothing was sent: name both calls with WithOperation.
	ErrUnnamedCall = errors.New("httpsafe: an attempt calls the same URL twice, or a step calls twice: name the calls with WithOperation")
)

// ErrKeyRequired is returned with TransportOptions.RequireKey for a request that has no key, is not named with WithIntent
// or WithKey, and does not have the context of an attempt. Nothing was sent.
var ErrKeyRequired = errors.New("httpsafe: the request has no key, and RequireKey makes up none: " +
	"send it with the context of the attempt, or name it with WithIntent or WithKey")

// call is one intent on its way: its key, its request as it is sent each time, and what is known so far.
type call struct {
	t          *Transport
	ctx        context.Context
	request    *http.Request // the caller's, which is not changed
	url        *url.URL      // and the rest as it is sent
	header     http.Header
	body       []byte
	key        string
	credential string
	digest     retrysafe.Digest
	id         string // in the journal
	intent     string
	begunAt    time.Time

	attempts  int
	waited    int  // attempts that were told that another one is at work
	failures  int  // server errors that said nothing else
	hops      int  // redirects followed
	refreshed bool // after a 401
	refused   bool // the next sending is the one with a new credential
	goesOn    bool // the next sending belongs to the same attempt
	unclear   bool // something that was sent may have run

	waitingSince time.Time // the first reply that said so; zero: none has
}

// prepare reads the request, and puts the key on a copy of it.
func (t *Transport) prepare(r *http.Request) (*call, error) {
	body, err := freeze(r, t.options.MaxBody)
	if err != nil {
		return nil, err
	}
	if r.Response != nil { // http.Client follows a redirect that we did not
		return nil, ErrRedirected
	}
	c := &call{
		t: t, ctx: r.Context(), request: r, header: r.Header.Clone(), body: body,
		url: cloneURL(r.URL), credential: credentialIn(r.Context()), begunAt: time.Now(),
	}
	if c.header == nil {
		c.header = http.Header{}
	}
	if err := c.chooseKey(); err != nil {
		return nil, err
	}
	c.digest = retrysafe.Key{Scope: retrysafe.Scope(originOf(c.url), c.credential), ID: c.key}.Digest()
	c.id = c.digest.String()
	return c, nil
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
		return nil, fmt.Errorf("httpsafe: read the request body: %w", err)
	case int64(len(body)) > limit:
		return nil, fmt.Errorf("%w: the limit is %d bytes", ErrBodyTooLarge, limit)
	}
	return body, nil
}

// chooseKey finds or makes the key, and writes it where the profile wants it.
func (c *call) chooseKey() error {
	said := namedIn(c.ctx)
	c.intent = said.intent
	request := retrysafe.NaturalID(c.request.Method, c.url.String(), string(c.body)) // before a key is in it
	key, err := c.t.carrier.find(c)
	switch {
	case err != nil:
		return fmt.Errorf("httpsafe: the key of the request: %w", err)
	case key != "" && said.key != "" && key != said.key:
		return fmt.Errorf("httpsafe: the request brings another key than its context: %w", retrysafe.ErrMismatch)
	case key == "":
		key, err = c.newKey(said, request)
		if err != nil {
			return err
		}
		if err := c.t.carrier.put(c, key); err != nil {
			return err
		}
	}
	if said.key != "" && !said.admits(request) {
		return fmt.Errorf("httpsafe: the key of the context: %w", retrysafe.ErrMismatch)
	}
	c.key = key
	return nil
}

// newKey returns the key of a request that has none.
func (c *call) newKey(said *named, request string) (string, error) {
	syntax := c.t.options.Profile.KeySyntax
	key := said.key
	if key == "" {
		attempt, ok := retrysafe.AttemptFrom(c.ctx)
		switch {
		case !ok && c.t.options.RequireKey:
			return "", ErrKeyRequired
		case !ok:
			return c.t.options.KeyFunc(), nil // of the right form, see validate
		}
		child, err := c.childKey(attempt, said.operation, request)
		if err != nil {
			return "", err
		}
		key = inForm(child, syntax)
	}
	if err := c.t.carrier.check(key); err != nil {
		return "", fmt.Errorf("httpsafe: a key for profile %q (%v): %w", c.t.options.Profile.Name, syntax, err)
	}
	return key, nil
}

// childKey derives the key of a call made inside an attempt, unless another call of the attempt has it. A call without a
// name is named after its step, or else after its method and URL.
func (c *call) childKey(a *retrysafe.Attempt, operation, request string) (string, error) {
	name := operation
	if name == "" {
		name = c.request.Method + " " + originOf(c.url) + c.url.EscapedPath()
		if step, ok := retrysafe.StepFrom(c.ctx); ok {
			name = step
		}
	}
	first, again := a.Control().NoteCall(name, request)
	switch {
	case again && operation == "":
		return "", ErrUnnamedCall
	case again && first != request:
		return "", fmt.Errorf("httpsafe: operation %q of the attempt: %w", operation, retrysafe.ErrMismatch)
	}
	return a.ChildKey(name), nil
}

// inForm writes a derived key, 32 hex digits, as the syntax wants it.
func inForm(key string, s httpsafe.KeySyntax) string {
	switch s.Form {
	case httpsafe.UUID:
		return keytext.UUIDOf(key, '8')
	case httpsafe.UUID4: // the server insists
		return keytext.UUIDOf(key, '4')
	}
	return key
}

// fresh returns the request for one attempt.
func (c *call) fresh(ctx context.Context) *http.Request {
	r := c.request.WithContext(ctx)
	r.URL, r.Header = cloneURL(c.url), c.header.Clone()
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
