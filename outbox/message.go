package outbox

import (
	"context"
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
)

// MaxKeyBytes is the longest key of a Message.
const MaxKeyBytes = 255

// MaxNameBytes is the longest Topic, and the longest Aggregate, of a Message.
const MaxNameBytes = 255

// Message is an intended side effect: it is saved with the business write, and sent afterwards.
type Message struct {
	// Key by which receivers deduplicate: the same on every delivery of this message. 1 to MaxKeyBytes bytes of visible ASCII.
	//
	// Default: inside an attempt of a retrysafe.Guard, the child key of topic, aggregate and Name, so that a second attempt gives the
	// message the same key; elsewhere a random one.
	Key string
	// Name tells the messages of one attempt apart that have no Key and the same Topic and Aggregate: "paid", "shipped". It takes no
	// other part.
	Name string
	// Topic says where the message goes; the Sink reads it. At most MaxNameBytes bytes.
	Topic string
	// Aggregate is what the message is about, such as an order's number: messages with the same one are sent in the order in which they
	// were saved, each after the one before it has been taken by its receiver. Default: no order. At most MaxNameBytes bytes.
	Aggregate string
	// Header goes along with the body: what the Sink makes of it is up to the Sink. UTF-8.
	Header map[string]string
	// Body is sent as it is, byte for byte.
	Body []byte
}

// Delivery is one try at sending a message.
type Delivery struct {
	// Message as it was saved. Key is always set; Name is not kept.
	Message
	// ID is the message's place in the order of saving.
	ID int64
	// Try counts the deliveries: 1 is the first.
	Try int
	// Age of the message: how long ago it was saved, on the database's clock.
	Age time.Duration

	unfit   error // somebody else has written to the table
	unended bool  // the try before this one
}

// Errors of Save, to be asked for with errors.Is.
var (
	// ErrInvalidMessage: the message cannot be saved as it is. Nothing was written.
	ErrInvalidMessage = errors.New("outbox: invalid message")
	// ErrKeyTaken: another message has this key. Nothing was written; roll the transaction back.
	ErrKeyTaken = errors.New("outbox: another message has this key")
)

// NewKey draws a random key.
func NewKey() string { return "msg_" + rand.Text() }

// keyed returns the message with a key, and who saves it: the attempt's owner, if the key is derived from one.
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
	owner := a.Lease().Owner
	return m, owner[:]
}

func (m Message) validate() error {
	switch {
	case len(m.Key) > MaxKeyBytes:
		return fmt.Errorf("%w: the key has %d bytes, the limit is %d", ErrInvalidMessage, len(m.Key), MaxKeyBytes)
	case strings.ContainsFunc(m.Key, func(r rune) bool { return r <= ' ' || r > '~' }):
		return fmt.Errorf("%w: the key has characters other than visible ASCII", ErrInvalidMessage)
	case len(m.Topic) > MaxNameBytes:
		return fmt.Errorf("%w: the topic has %d bytes, the limit is %d", ErrInvalidMessage, len(m.Topic), MaxNameBytes)
	case len(m.Aggregate) > MaxNameBytes:
		return fmt.Errorf("%w: the aggregate has %d bytes, the limit is %d", ErrInvalidMessage, len(m.Aggregate), MaxNameBytes)
	}
	for name, value := range m.Header {
		if !utf8.ValidString(name) || !utf8.ValidString(value) {
			return fmt.Errorf("%w: the header %q is not UTF-8", ErrInvalidMessage, name)
		}
	}
	return nil
}

// digest tells messages with the same key apart.
func (m Message) digest() []byte {
	parts := []string{m.Topic, m.Aggregate, string(m.Body)}
	for _, name := range slices.Sorted(maps.Keys(m.Header)) {
		parts = append(parts, name, m.Header[name])
	}
	sum := sha256.Sum256(lengthPrefixed(parts...))
	return sum[:16]
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

// lengthPrefixed joins parts so that no two lists of them give the same bytes.
func lengthPrefixed(parts ...string) (b []byte) {
	for _, p := range parts {
		b = append(binary.AppendUvarint(b, uint64(len(p))), p...)
	}
	return b
}
