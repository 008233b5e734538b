// Package cryptjournal encrypts what a client's journal keeps: a reader of the file or of the table sees how many
// intents there are, when they began, and why they were given up, and not what was asked of whom.
//
//	keyset, err := cryptstore.ParseKeyset(text) // a file that "retrysafe keyset new" has made
//	journal := cryptjournal.New(inner, cryptstore.NewKeyring(keyset), cryptjournal.Options{})
//
// Key, intent, method, URL, credential, header and body of an entry are encrypted, and bound to its ID and to when it
// began. The ID is a digest of origin, credential and key; an entry's reason to be given up stays as it is, so that it
// can be written without keys.
package cryptjournal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/client"
	"github.com/retrysafe/retrysafe/internal/sealed"
)

// ErrUnreadable is returned for an entry that cannot be decrypted, because its key is missing, or because it was changed
// or belongs to another program. The entry stays in the journal, and nothing is sent for it.
var ErrUnreadable = errors.New("cryptjournal: the journal has an entry that cannot be read")

// AEAD encrypts with associated data. A *cryptstore.Keyring is one, whose keys can be rotated, and so is each AEAD of
// Tink.
type AEAD interface {
	Encrypt(plaintext, associatedData []byte) ([]byte, error)
	Decrypt(ciphertext, associatedData []byte) ([]byte, error)
}

// Options of a Journal. Options{} works.
type Options struct {
	// Plaintext has entries read that are not encrypted, which are those of before encryption was switched on. Otherwise
	// they are errors: who can write to the journal could make one up, which the client would send with its credentials.
	Plaintext bool
}

// Journal is a client.Journal over another one, which keeps ciphertext. The caller closes the inner journal.
type Journal struct {
	inner client.Journal
	keys  AEAD
	o     Options
}

var _ client.Journal = (*Journal)(nil)

// New returns a journal over inner that encrypts with keys. It panics if one of them is nil, because that is a mistake in
// the program.
func New(inner client.Journal, keys AEAD, o Options) *Journal {
	if inner == nil || keys == nil {
		panic("cryptjournal: New without a journal or without keys")
	}
	return &Journal{inner, keys, o}
}

// Begin implements client.Journal. If there is an entry of the same ID that cannot be read, it returns ErrUnreadable.
func (j *Journal) Begin(ctx context.Context, e client.Entry) (*client.Entry, error) {
	kept, err := j.seal(e)
	if err != nil {
		return nil, err
	}
	known, err := j.inner.Begin(ctx, kept)
	return j.openKnown(known, err)
}

// End implements client.Journal. It needs no keys.
func (j *Journal) End(ctx context.Context, id string) error { return j.inner.End(ctx, id) }

// GiveUp implements client.Journal. The reason is not encrypted.
func (j *Journal) GiveUp(ctx context.Context, id, why string) error {
	return j.inner.GiveUp(ctx, id, why)
}

// Find implements client.Journal. It returns ErrUnreadable for an entry that cannot be read.
func (j *Journal) Find(ctx context.Context, id string) (*client.Entry, error) {
	known, err := j.inner.Find(ctx, id)
	return j.openKnown(known, err)
}

// Entries implements client.Journal. If some cannot be read, it returns the others with an error that names each and is
// ErrUnreadable, so that Resume sends the others.
func (j *Journal) Entries(ctx context.Context) ([]client.Entry, error) {
	all, err := j.inner.Entries(ctx)
	readable, failed := all[:0], []error{err}
	for _, e := range all {
		if err := j.open(&e); err != nil {
			failed = append(failed, err)
			continue
		}
		readable = append(readable, e)
	}
	return readable, errors.Join(failed...)
}

func (j *Journal) openKnown(known *client.Entry, err error) (*client.Entry, error) {
	if known == nil || err != nil {
		return nil, err
	}
	if err := j.open(known); err != nil {
		return nil, err
	}
	return known, nil
}

// place is the associated data of an entry.
func place(id string) []byte {
	return sealed.Place(retrysafe.Key{Scope: "journal", ID: id}.Digest(), sealed.Entry)
}

// seal returns the entry that the inner journal keeps.
func (j *Journal) seal(e client.Entry) (client.Entry, error) {
	kept := client.Entry{ID: e.ID, BegunAt: e.BegunAt, GivenUp: e.GivenUp}
	body := e.Body
	e.Body, e.GivenUp = nil, ""
	head, err := json.Marshal(e)
	if err == nil {
		kept.Body, err = sealed.Seal(j.keys, sealed.Join(head, body), place(e.ID))
	}
	if err != nil {
		return client.Entry{}, fmt.Errorf("cryptjournal: encrypt entry %s: %w", e.ID, err)
	}
	return kept, nil
}

// open makes an entry of the inner journal the one that was begun. When that was is decrypted too: a later time would
// have the client send again what the server has forgotten.
func (j *Journal) open(e *client.Entry) error {
	if !sealed.Is(e.Body) {
		if j.o.Plaintext {
			return nil
		}
		return fmt.Errorf("%w: entry %s is not encrypted: it is of before encryption was switched on, or was made up; "+
			"Options.Plaintext reads it", ErrUnreadable, e.ID)
	}
	var opened client.Entry
	joined, err := sealed.Open(j.keys, e.Body, place(e.ID))
	if err == nil {
		var head []byte
		if head, opened.Body, err = sealed.Split(joined); err == nil {
			body := opened.Body
			err = json.Unmarshal(head, &opened)
			opened.Body = body
		}
	}
	if err != nil {
		return fmt.Errorf("%w: entry %s %w", ErrUnreadable, e.ID, err)
	}
	opened.GivenUp = e.GivenUp
	*e = opened
	return nil
}
