package outbox

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/sealed"
)

// MaxKeyBytes is the maximum length of a Message's Key.
const MaxKeyBytes = 255

// MaxNameBytes is the maximum length of a Message's Topic, and of its Aggregate.
const MaxNameBytes = 255

// Message is an intended side effect. It is saved in the transaction of the business write, and sent after the
// commit.
type Message struct {
	// Key is the deduplication key for receivers. Every delivery of the message carries it. It has 1 to MaxKeyBytes
	// bytes of visible ASCII.
	//
	// Default: inside an attempt of a retrysafe.Guard, a child key derived from Topic, Aggregate and Name, so that a
	// second attempt gives the message the same key; elsewhere a random key.
	Key string
	// Name distinguishes messages of one attempt without a Key and with the same Topic and Aggregate, such as "paid"
	// and "shipped". It is used only to derive the key.
	Name string
	// Topic tells the Sink where to send the message. It has at most MaxNameBytes bytes.
	Topic string
	// Aggregate identifies the subject of the message, such as an order number. Messages with the same Aggregate are
	// sent in the order in which they were saved, each after the receiver has taken the previous one. Empty means no
	// order. It has at most MaxNameBytes bytes.
	Aggregate string
	// Header is stored with the body; how it is sent depends on the Sink. Names and values must be UTF-8.
	Header map[string]string
	// Body is sent unchanged, byte for byte.
	Body []byte
}

// Delivery is one try to send a message.
type Delivery struct {
	// Message is the message as it was saved. Key is always set; Name is not stored.
	Message
	// ID is the message's position in the order of saving.
	ID int64
	// Try is the number of this try, starting at 1.
	Try int
	// Age is the time since the message was saved, on the database's clock.
	Age time.Duration

	// Encrypted says that Header and Body are stored encrypted.
	Encrypted bool
	// Unreadable is why Header and Body are missing: they cannot be decrypted, or another program wrote the row. A Sink gets
	// no such message. It is nil, and both are missing, if Encrypted is set and bodies were not asked for.
	Unreadable error

	// Unended is how long ago the lease of the previous try ended, if no relay has noted what became of that try:
	// because it was killed, or because the database failed, or if the Sink has said that it is not known: see [Unseen].
	// Otherwise it is 0. Only a Sink is told.
	Unended time.Duration
}

// Errors that Save returns; compare them with errors.Is.
var (
	// ErrInvalidMessage is returned when a field of the message exceeds its limits. Nothing was written.
	ErrInvalidMessage = errors.New("outbox: invalid message")
	// ErrReadOnly is returned by methods of an Outbox if PostgreSQL takes no writes, because the connection has reached
	// a standby, or default_transaction_read_only is on. Nothing was written. The connection is not used again, so that
	// a later call may reach another server.
	ErrReadOnly = errors.New("outbox: the database is read-only: it is a standby, or default_transaction_read_only is on; name " +
		"all hosts and target_session_attrs=read-write in its URL")
	// ErrKeyTaken is returned when a different message has the same key. Nothing was written; roll the transaction
	// back.
	ErrKeyTaken = errors.New("outbox: another message has this key")
)

// NewKey returns a random key.
func NewKey() string { return "msg_" + rand.Text() }

// keyed returns the message with its key, and the owner of the attempt from which the key was derived, empty if there
// is none.
func keyed(ctx context.Context, m Message) (Message, []byte) {
	if m.Key != "" {
		return m, []byte{}
	}
	a, ok := retrysafe.AttemptFrom(ctx)
	if !ok {
		m.Key = NewKey()
		return m, []byte{}
	}
	m.Key = a.ChildKey(string(lengthPrefixed("retrysafe outbox", m.Topic, m.Aggregate, m.Name)))
	owner := a.Control().Lease().Owner
	return m, owner[:]
}

func (m Message) validate() error {
	switch {
	case len(m.Key) > MaxKeyBytes:
		return fmt.Errorf("%w: Key has %d bytes, the limit is %d", ErrInvalidMessage, len(m.Key), MaxKeyBytes)
	case strings.ContainsFunc(m.Key, func(r rune) bool { return r <= ' ' || r > '~' }):
		return fmt.Errorf("%w: Key has characters other than visible ASCII", ErrInvalidMessage)
	case len(m.Topic) > MaxNameBytes:
		return fmt.Errorf("%w: Topic has %d bytes, the limit is %d", ErrInvalidMessage, len(m.Topic), MaxNameBytes)
	case len(m.Aggregate) > MaxNameBytes:
		return fmt.Errorf("%w: Aggregate has %d bytes, the limit is %d", ErrInvalidMessage, len(m.Aggregate), MaxNameBytes)
	}
	if sealed.Is(m.Body) {
		return fmt.Errorf("%w: Body begins as an encrypted one does, and could not be read again", ErrInvalidMessage)
	}
	for name, value := range m.Header {
		if !utf8.ValidString(name) || !utf8.ValidString(value) {
			return fmt.Errorf("%w: Header %q is not UTF-8", ErrInvalidMessage, name)
		}
	}
	return nil
}

// digest returns a digest of everything but the key, which distinguishes messages with the same key. With a secret it is
// an HMAC, from which no content can be guessed.
func (m Message) digest(secret []byte) []byte {
	parts := []string{m.Topic, m.Aggregate, string(m.Body)}
	for _, name := range slices.Sorted(maps.Keys(m.Header)) {
		parts = append(parts, name, m.Header[name])
	}
	h := sha256.New()
	if len(secret) > 0 {
		h = hmac.New(sha256.New, secret)
	}
	h.Write(lengthPrefixed(parts...))
	return h.Sum(nil)[:16]
}

func encodeHeader(h map[string]string) ([]byte, error) {
	if len(h) == 0 {
		return []byte{}, nil
	}
	return json.Marshal(h)
}

func decodeHeader(b []byte) (h map[string]string, err error) {
	if len(b) == 0 {
		return nil, nil
	}
	return h, json.Unmarshal(b, &h)
}

// lengthPrefixed joins parts so that different lists give different bytes.
func lengthPrefixed(parts ...string) (b []byte) {
	for _, p := range parts {
		b = append(binary.AppendUvarint(b, uint64(len(p))), p...)
	}
	return b
}
