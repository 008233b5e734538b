package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/retrysafe/retrysafe"
)

// Journal keeps intents from before their first attempt until their outcome is known, so that a client that was killed
// can resume them under the same key. filejournal and sqljournal are two; journaltest checks others.
//
// It holds request bodies, which may be secret: restrict who can read the journal, or encrypt it with cryptjournal. It
// never holds credentials.
//
// All methods may be called by several goroutines at once, and repeated: the second call adds nothing. The context of
// End and GiveUp ends after ten seconds, and not before.
type Journal interface {
	// Begin keeps an entry durably before it returns. If there is an entry of the same ID already, that entry is left
	// as it is and returned.
	Begin(ctx context.Context, e Entry) (known *Entry, err error)
	// End forgets an entry. A missing entry is no error. The deletion need not be durable when End returns: an entry
	// that reappears is only sent once more.
	End(ctx context.Context, id string) error
	// GiveUp keeps an entry for people, with the reason why it is not sent any more. A missing entry is no error.
	GiveUp(ctx context.Context, id, why string) error
	// Find returns the entry of an ID; nil if there is none.
	Find(ctx context.Context, id string) (*Entry, error)
	// Entries returns all entries, the oldest first, also those that are given up. If some cannot be read, it returns the
	// others with an error.
	Entries(ctx context.Context) ([]Entry, error)
}

// Entry is an intent as a journal keeps it: its request, exactly as it is sent.
type Entry struct {
	// ID names the entry: the digest of origin, credential and key, and of the client's name if it has one.
	ID string `json:"id"`
	// Intent is the text of WithIntent's; empty without.
	Intent string `json:"intent,omitempty"`
	Key    string `json:"key"`
	// Method and URL say where the request goes. Over gRPC, Method is the full name of the method, which begins with a
	// slash, and URL the target.
	Method string `json:"method"`
	URL    string `json:"url"`
	// Credential is what WithCredential named: a name, not the credential.
	Credential string `json:"credential,omitempty"`
	// Header has the fields with the key, those of Options.JournalHeaders, and Host if it is not that of the URL. The
	// names of trailer fields begin with http.TrailerPrefix. Over gRPC it is metadata.
	Header http.Header `json:"header,omitempty"`
	Body   []byte      `json:"body,omitempty"`
	// BegunAt is when the intent began, by the client's clock, in whole milliseconds.
	BegunAt time.Time `json:"begun_at"`
	// GivenUp says why the entry is not sent any more; empty: it is pending.
	GivenUp string `json:"given_up,omitempty"`
}

// entryID returns the ID of an intent's entry.
func (e *Engine) entryID(origin, credential, key string) string {
	scope := []string{origin, credential}
	if e.options.Name != "" {
		scope = append(scope, e.options.Name)
	}
	return retrysafe.Key{Scope: retrysafe.Scope(scope...), ID: key}.Digest().String()
}

// String names the entry without its key.
func (e Entry) String() string { return "journal entry " + e.ID }

// GoString hides the key from %#v too.
func (e Entry) GoString() string { return "client.Entry(" + e.ID + ")" }

// sameRequest reports whether both send the same.
func (e *Entry) sameRequest(o *Entry) bool {
	return e.Method == o.Method && e.URL == o.URL && e.Header.Get("Host") == o.Header.Get("Host") &&
		bytes.Equal(e.Body, o.Body)
}

// notText names what of the entry is not text; empty: all of it is. Journals keep text, as JSON or in a database. With
// other bytes an entry would not come back as it was: under another ID, which no client resumes, or as another request.
func (e *Entry) notText() string {
	for _, part := range [][2]string{
		{"the key", e.Key}, {"the method", e.Method}, {"the URL", e.URL}, {"the credential's name", e.Credential},
	} {
		if !isText(part[1]) {
			return part[0]
		}
	}
	for name, values := range e.Header {
		if !isText(name + " " + strings.Join(values, " ")) {
			return fmt.Sprintf("the header field %q", name)
		}
	}
	return ""
}

// isText reports whether each journal keeps a text: PostgreSQL takes no NUL.
func isText(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

// journalBegin puts the call into the journal, or resumes what the journal has of it.
func (c *call) journalBegin() error {
	if err := c.x.Journal(&c.entry); err != nil {
		return err
	}
	if what := c.entry.notText(); what != "" {
		return fmt.Errorf("client: %s of the request is not UTF-8, or holds a NUL, and a journal could not keep it: "+
			"write it in UTF-8, or send the request without a journal", what)
	}
	// The text of an intent is for people, so that what a journal cannot keep of it is replaced.
	c.entry.Intent = strings.ReplaceAll(strings.ToValidUTF8(c.entry.Intent, "\uFFFD"), "\x00", "\uFFFD")
	c.entry.BegunAt = c.entry.BegunAt.Round(0).Truncate(time.Millisecond)
	known, err := c.e.options.Journal.Begin(c.ctx, c.entry)
	switch {
	case err != nil: // the journal may have kept the intent, and then Resume will send it
		return c.unknown(Reply{Err: err}, GaveUpJournal)
	case known == nil:
		return nil
	case !known.sameRequest(&c.entry):
		return fmt.Errorf("client: the journal has another request under this key: %w", retrysafe.ErrMismatch)
	}
	return c.resumeFrom(known)
}

// resumeFrom makes the call that of a known entry, which may have been sent.
func (c *call) resumeFrom(known *Entry) error {
	c.entry, c.unclear = *known, true
	if known.GivenUp != "" {
		return c.unknown(Reply{}, known.GivenUp)
	}
	return nil
}

// journalPatience is how long a journal may take to note how an intent has ended. A database that does not answer must
// not keep the caller from its result for ever: an entry that stays is only sent once more.
const journalPatience = 10 * time.Second

// whileAnswering returns the context in which a journal notes how an intent has ended, although ctx may have ended.
func whileAnswering(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), journalPatience)
}

// end forgets the call, unless another one is on its way under the same key, which then does so.
func (c *call) end() error {
	if c.e.calls(c.entry.ID) > 1 {
		return nil
	}
	ctx, stop := whileAnswering(c.ctx)
	defer stop()
	return c.e.options.Journal.End(ctx, c.entry.ID)
}

// keep notes in the journal what an error means for the entry: a call that did nothing is over; one whose outcome no
// further attempt can tell is for people; any other is for the next Resume.
func (c *call) keep(err error) error {
	var unknown *OutcomeUnknownError
	switch {
	case !errors.As(err, &unknown):
		return c.end()
	case unknown.final():
		ctx, stop := whileAnswering(c.ctx)
		defer stop()
		return c.e.options.Journal.GiveUp(ctx, c.entry.ID, unknown.Why)
	}
	return nil
}
