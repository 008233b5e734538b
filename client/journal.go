// Package client is the client of operations that are safe to retry.
package client

import (
	"context"
	"net/http"
	"time"
)

// Journal keeps intents from before their first attempt until their outcome is known, so that a client that was killed
// can resume them under the same key. filejournal and sqljournal are two; journaltest checks others.
//
// It holds request bodies, which may be secret: who can read the journal can read them. It never holds credentials.
//
// All methods may be called by several goroutines at once, and repeated: the second call adds nothing.
type Journal interface {
	// Begin keeps an entry durably before it returns. If there is an entry of the same ID already, that entry is left as
	// it is and returned.
	Begin(ctx context.Context, e Entry) (known *Entry, err error)
	// End forgets an entry. A missing entry is no error. The deletion need not be durable when End returns: an entry that
	// reappears is only sent once more.
	End(ctx context.Context, id string) error
	// GiveUp keeps an entry for people, with the reason why it is not sent any more. A missing entry is no error.
	GiveUp(ctx context.Context, id, why string) error
	// Entries returns all entries, the oldest first, also those that are given up.
	Entries(ctx context.Context) ([]Entry, error)
}

// Entry is an intent as a journal keeps it: its request, exactly as it is sent.
type Entry struct {
	// ID names the entry: the digest of origin, credential and key.
	ID string `json:"id"`
	// Intent is the text of WithIntent's; empty without.
	Intent string `json:"intent,omitempty"`
	Key    string `json:"key"`
	Method string `json:"method"`
	URL    string `json:"url"`
	// Credential is what WithCredential named: a name, not the credential.
	Credential string `json:"credential,omitempty"`
	// Header fields that the transport's options name, and those with the key.
	Header http.Header `json:"header,omitempty"`
	Body   []byte      `json:"body,omitempty"`
	// BegunAt is when the intent began, by the client's clock, in whole milliseconds.
	BegunAt time.Time `json:"begun_at"`
	// GivenUp says why the entry is not sent any more; empty: it is pending.
	GivenUp string `json:"given_up,omitempty"`
}

// String names the entry without its key.
func (e Entry) String() string { return "journal entry " + e.ID }

// GoString hides the key from %#v too.
func (e Entry) GoString() string { return "client.Entry(" + e.ID + ")" }
