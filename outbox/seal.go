package outbox

import (
	"errors"
	"fmt"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/sealed"
)

// AEAD encrypts with associated data. A *cryptstore.Keyring is one, whose keys can be rotated, and so is each AEAD of
// Tink.
type AEAD interface {
	Encrypt(plaintext, associatedData []byte) ([]byte, error)
	Decrypt(ciphertext, associatedData []byte) ([]byte, error)
}

// minSecret is how many bytes Options.Secret has at least.
const minSecret = 16

// errNoKeys is why an encrypted message cannot be read without Options.Keys.
var errNoKeys = errors.New("cannot be decrypted, because this program has no keys: set Options.Keys, or --encryption of " +
	"the retrysafe command")

// place is the associated data of a message. Topic and aggregate belong to it, because they decide who receives the
// message and in which order. The schema does not, because programs may name it or leave it to the search path.
func (b *Outbox) place(m Message) []byte {
	k := retrysafe.Key{Scope: retrysafe.Scope("outbox", b.table, m.Topic, m.Aggregate), ID: m.Key}
	return sealed.Place(k.Digest(), sealed.Message)
}

// seal returns the columns header and body of a message. If the outbox has keys that encrypt, both are in the body, and the
// header is the marker alone, by which an encrypted message is known without its body.
func (b *Outbox) seal(m Message) (header, body []byte, err error) {
	if header, err = encodeHeader(m.Header); err != nil {
		return nil, nil, fmt.Errorf("%w: Header: %w", ErrInvalidMessage, err)
	}
	if b.keys == nil || b.decryptOnly {
		return header, append([]byte{}, m.Body...), nil
	}
	if len(b.secret) < minSecret {
		return nil, nil, fmt.Errorf("outbox: Options.Keys without Options.Secret: give it %d random bytes or more, which "+
			"stay the same, or bodies could be guessed from their digests", minSecret)
	}
	if body, err = sealed.Seal(b.keys, sealed.Join(header, m.Body), b.place(m)); err != nil {
		return nil, nil, fmt.Errorf("outbox: encrypt: %w", err)
	}
	return []byte(sealed.Marker), body, nil
}

// open reads the columns header and body of a message into d. Without bodies, it leaves what is encrypted alone.
func (b *Outbox) open(d *Delivery, header, body []byte, bodies bool) {
	d.Encrypted = sealed.Is(header) || sealed.Is(body)
	if d.Encrypted {
		if !bodies {
			return
		}
		var err error
		if header, body, err = b.unseal(d.Message, body); err != nil {
			d.Unreadable = fmt.Errorf("outbox: the message %w", err) // retried: a key that is missing may come back
			return
		}
	}
	var err error
	if d.Header, err = decodeHeader(header); err != nil {
		d.Unreadable = Permanent(fmt.Errorf("outbox: read the header: %w", err))
		return
	}
	d.Body = body
}

func (b *Outbox) unseal(m Message, body []byte) (header, opened []byte, err error) {
	if b.keys == nil {
		return nil, nil, errNoKeys
	}
	joined, err := sealed.Open(b.keys, body, b.place(m))
	if err != nil {
		return nil, nil, err
	}
	return sealed.Split(joined)
}
