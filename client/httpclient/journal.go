package httpclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/client"
)

// sameRequest reports whether both send the same.
func sameRequest(e, o *client.Entry) bool {
	return e.Method == o.Method && e.URL == o.URL && bytes.Equal(e.Body, o.Body)
}

// entry returns the call as the journal keeps it.
func (c *call) entry() client.Entry {
	e := client.Entry{
		ID: c.id, Intent: c.intent, Key: c.key, Method: c.request.Method, Credential: c.credential,
		Header: http.Header{}, Body: c.body, BegunAt: c.begunAt.Round(0).Truncate(time.Millisecond),
	}
	u := cloneURL(c.url)
	u.User = nil // a credential
	e.URL = u.String()
	names := []string{
		"Content-Type", "Content-Encoding", "Accept", "Accept-Language", "If-Match", "If-None-Match", "Prefer", c.t.carrier.firstSent,
	}
	names = append(append(names, c.t.carrier.aliases...), c.t.options.JournalHeaders...)
	for _, name := range names {
		name = http.CanonicalHeaderKey(name)
		if values := c.header[name]; len(values) > 0 {
			e.Header[name] = values
		}
	}
	return e
}

// journalBegin puts the call into the journal, or goes on with what the journal has of it.
func (c *call) journalBegin() error {
	e := c.entry()
	known, err := c.t.options.Journal.Begin(c.ctx, e)
	switch {
	case err != nil: // whether it is kept, and so will be sent, is not known
		return c.unknown(verdict{reply: reply{err: err}}, GaveUpJournal)
	case known == nil:
		return nil
	case !sameRequest(known, &e):
		return fmt.Errorf("httpsafe: the journal has another request under this key: %w", retrysafe.ErrMismatch)
	}
	return c.goOn(known)
}

// goOn makes the call that of a known entry, which may have been sent.
func (c *call) goOn(known *client.Entry) error {
	c.begunAt, c.unclear = known.BegunAt, true
	if first := c.t.carrier.firstSent; first != "" && len(known.Header[first]) > 0 {
		c.header[first] = known.Header[first]
	}
	if known.GivenUp != "" {
		return c.unknown(verdict{}, known.GivenUp)
	}
	return nil
}

// journalEnd forgets the call once its answer has been read, and at once if it has not run; unless another one is on its way under
// the same key, which then does so.
func (c *call) journalEnd(response *http.Response, err error, done func()) (*http.Response, error) {
	if err != nil {
		defer done()
		return nil, errors.Join(err, c.keep(err))
	}
	response.Body = &closing{ReadCloser: response.Body, after: func() error {
		defer done()
		return c.end()
	}}
	return response, nil
}

// end forgets the call, unless another one is on its way.
func (c *call) end() error {
	if c.t.runningTogether(c.id) {
		return nil
	}
	return c.t.options.Journal.End(context.WithoutCancel(c.ctx), c.id)
}

// keep notes in the journal what an error means for the entry: a call that did nothing is over; one whose outcome no further attempt
// can tell is for people; any other is for the next Resume.
func (c *call) keep(err error) error {
	var unknown *OutcomeUnknownError
	switch {
	case !errors.As(err, &unknown):
		return c.end()
	case unknown.Why == GaveUpAnswer || unknown.Why == GaveUpHorizon:
		return c.t.options.Journal.GiveUp(context.WithoutCancel(c.ctx), c.id, unknown.Why)
	}
	return nil
}

// again makes a call of an entry.
func (t *Transport) again(ctx context.Context, e client.Entry) (*call, error) {
	r, err := http.NewRequestWithContext(WithCredential(withNamed(ctx, &named{}), e.Credential), e.Method, e.URL, bytes.NewReader(e.Body))
	if err != nil {
		return nil, fmt.Errorf("httpsafe: %v: %w", e, err)
	}
	r.Header = e.Header.Clone()
	c, err := t.prepare(r)
	if err != nil {
		return nil, fmt.Errorf("httpsafe: %v: %w", e, err)
	}
	if c.id != e.ID {
		return nil, fmt.Errorf("httpsafe: %v: its request does not carry its key under profile %q", e, t.options.Profile.Name)
	}
	c.intent = e.Intent
	return c, c.goOn(&e)
}
