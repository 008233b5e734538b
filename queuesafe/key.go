package queuesafe

import (
	"errors"
	"fmt"
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/fingerprint"
	"github.com/retrysafe/retrysafe/internal/keytext"
)

// KeyHeader is the header in which producers send the key. The sinks of the outbox write it.
const KeyHeader = "Idempotency-Key"

// ErrNoKey is returned by a [KeyFunc], possibly wrapped, for a message that has no key. Such a message becomes a dead
// letter.
var ErrNoKey = errors.New("queuesafe: the message has no key")

// KeyFunc returns the key of a message. It must be the same on every delivery of the message, and for every copy that
// the producer sends. Any error, and a panic, makes the message a dead letter.
type KeyFunc func(m Message) (string, error)

// KeyByID returns [Message.ID]. Use it where the producer chooses the ID, or sends each message only once: some brokers
// give a new ID to a message that is published again after a timeout.
func KeyByID() KeyFunc {
	return func(m Message) (string, error) {
		if m.ID == "" {
			return "", fmt.Errorf("%w: no ID", ErrNoKey)
		}
		return m.ID, nil
	}
}

// KeyByPosition combines [Message.Source] and [Message.Position]: topic, partition and offset. It recognises another
// delivery of the same message, but not a copy that the producer has sent again.
func KeyByPosition() KeyFunc {
	return func(m Message) (string, error) {
		if m.Position == "" {
			return "", fmt.Errorf("%w: no position", ErrNoKey)
		}
		return retrysafe.Scope(m.Source, m.Position), nil
	}
}

// KeyByHeader returns the value of a header: as it is or, if it begins with a quotation mark, as a quoted string (RFC
// 9651, section 3.3.3). A message with two values has no valid key.
func KeyByHeader(name string) KeyFunc {
	return func(m Message) (string, error) {
		values := m.Header.Values(name)
		syntax := keytext.Syntax{Form: keytext.Text, Max: retrysafe.MaxKeyBytes}
		if len(values) == 1 && strings.HasPrefix(values[0], `"`) {
			syntax.Form = keytext.StringOnly
		}
		key, reason := syntax.Parse(values)
		switch {
		case reason == keytext.Empty && (len(values) == 0 || values[0] == ""):
			return "", fmt.Errorf("%w: no header %s", ErrNoKey, name)
		case reason != "":
			return "", fmt.Errorf("queuesafe: the header %s is not a key: %s", name, reason)
		}
		return key, nil
	}
}

// KeyByField returns the value at a JSON pointer (RFC 6901) in the body: see fingerprint.JSONKey. A null is no key.
func KeyByField(pointer string) KeyFunc {
	return func(m Message) (string, error) {
		text, ok, err := fingerprint.JSONKey(m.Body, pointer)
		switch {
		case err != nil:
			return "", fmt.Errorf("queuesafe: the body has no field %q: %w", pointer, err)
		case !ok || text == "":
			return "", fmt.Errorf("%w: no field %q", ErrNoKey, pointer)
		}
		return text, nil
	}
}

// FirstKey returns the first key that one of the functions finds. It goes on to the next function only after
// [ErrNoKey]: a malformed key is an error.
func FirstKey(funcs ...KeyFunc) KeyFunc {
	return func(m Message) (string, error) {
		missing := ErrNoKey
		for _, find := range funcs {
			key, err := find(m)
			if !errors.Is(err, ErrNoKey) {
				return key, err
			}
			missing = err
		}
		return "", missing
	}
}

// WithKey returns a copy of a header to send, with the key in [KeyHeader] as [KeyByHeader] reads it. It drops other
// spellings of that name.
func WithKey(header map[string]string, key string) map[string]string {
	h := make(map[string]string, len(header)+1)
	for name, value := range header {
		if !strings.EqualFold(name, KeyHeader) {
			h[name] = value
		}
	}
	if strings.HasPrefix(key, `"`) { // KeyByHeader would take it for a quoted one
		key = `"` + escapeQuoted.Replace(key) + `"`
	}
	h[KeyHeader] = key
	return h
}

var escapeQuoted = strings.NewReplacer(`\`, `\\`, `"`, `\"`)
