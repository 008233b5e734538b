package httpsafe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Journal keeps intents from before their first attempt until their outcome is known, so that a client that was killed
// can go on under the same key. OpenFileJournal and NewSQLJournal make one; journaltest checks those of others.
//
// It holds request bodies, which may be secret: who can read the journal can read them. It never holds credentials.
//
// All methods may be called by several goroutines at once, and repeated: the second call adds nothing.
type Journal interface {
	// Begin keeps an entry for good before it returns. If there is an entry of the same ID already, it is left as it
	// is and returned.
	Begin(ctx context.Context, e JournalEntry) (known *JournalEntry, err error)
	// End forgets an entry. It is no error if there is none. It need not be for good when it returns: an entry that
	// comes back is only sent once more.
	End(ctx context.Context, id string) error
	// GiveUp keeps an entry for people, with the reason why it is not sent any more. It is no error if there is none.
	GiveUp(ctx context.Context, id, why string) error
	// Entries returns all entries, the oldest first, also those that are given up.
	Entries(ctx context.Context) ([]JournalEntry, error)
}

// JournalEntry is an intent as a journal keeps it: its request, exactly as it is sent.
type JournalEntry struct {
	// ID names the entry: the digest of origin, credential and key.
	ID string `json:"id"`
	// Intent is the text of WithIntent's; empty without.
	Intent string `json:"intent,omitempty"`
	Key    string `json:"key"`
	Method string `json:"method"`
	URL    string `json:"url"`
	// Credential is what WithCredential said: a name, not the credential.
	Credential string `json:"credential,omitempty"`
	// Header fields of TransportOptions.JournalHeaders, and those with the key.
	Header http.Header `json:"header,omitempty"`
	Body   []byte      `json:"body,omitempty"`
	// BegunAt is when the intent began, by the client's clock, in whole milliseconds.
	BegunAt time.Time `json:"begun_at"`
	// GivenUp says why the entry is not sent any more; empty: it is pending.
	GivenUp string `json:"given_up,omitempty"`
}

// sameRequest reports whether both send the same.
func (e *JournalEntry) sameRequest(o *JournalEntry) bool {
	return e.Method == o.Method && e.URL == o.URL && bytes.Equal(e.Body, o.Body)
}

// String names the entry without its key.
func (e JournalEntry) String() string { return "journal entry " + e.ID }

// GoString hides the key from %#v too.
func (e JournalEntry) GoString() string { return "httpsafe.JournalEntry(" + e.ID + ")" }

// entry returns the call as the journal keeps it.
func (c *call) entry() JournalEntry {
	e := JournalEntry{
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
	case !known.sameRequest(&e):
		return fmt.Errorf("httpsafe: the journal has another request under this key: %w", retrysafe.ErrMismatch)
	}
	return c.goOn(known)
}

// goOn makes the call that of a known entry, which may have been sent.
func (c *call) goOn(known *JournalEntry) error {
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
func (t *Transport) again(ctx context.Context, e JournalEntry) (*call, error) {
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
