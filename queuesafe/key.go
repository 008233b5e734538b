package queuesafe

import (
	"errors"
	"fmt"
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/fingerprint"
	"github.com/retrysafe/retrysafe/internal/keytext"
)

// KeyHeader is the header in which producers send the key: those of the outbox do.
const KeyHeader = "Idempotency-Key"

// ErrNoKey is what a KeyFunc returns, or wraps, for a message that has no key. A Consumer makes it a dead letter.
var ErrNoKey = errors.New("queuesafe: the message has no key")

// KeyFunc finds the key in a message: what is the same on every delivery of it, and in every copy that its producer may have
// sent. Any error, and a panic, makes the message a dead letter.
type KeyFunc func(m Message) (string, error)

// KeyByID takes Message.ID. It is right where the producer chose the ID, and where it sends each message only once; a
// producer that publishes again after a timeout gets a new ID from some brokers.
func KeyByID() KeyFunc {
	return func(m Message) (string, error) {
		if m.ID == "" {
			return "", fmt.Errorf("%w: no ID", ErrNoKey)
		}
		return m.ID, nil
	}
}

// KeyByPosition takes Message.Source and Message.Position: topic, partition and offset. It tells deliveries of one
// message from other messages, but not a copy that the producer has sent again.
func KeyByPosition() KeyFunc {
	return func(m Message) (string, error) {
		if m.Position == "" {
			return "", fmt.Errorf("%w: no position", ErrNoKey)
		}
		return retrysafe.Scope(m.Source, m.Position), nil
	}
}

// KeyByHeader takes the value of a header: as it is, or, if it begins with a quotation mark, as the string that it quotes
// (RFC 9651, section 3.3.3). Two values are no key: nobody knows which one is meant.
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

// KeyByField takes the value at a JSON pointer (RFC 6901) in the body: see fingerprint.JSONField.
func KeyByField(pointer string) KeyFunc {
	return func(m Message) (string, error) {
		text, ok, err := fingerprint.JSONField(m.Body, pointer)
		switch {
		case err != nil:
			return "", fmt.Errorf("queuesafe: the body has no field %q: %w", pointer, err)
		case !ok || text == "":
			return "", fmt.Errorf("%w: no field %q", ErrNoKey, pointer)
		}
		return text, nil
	}
}

// FirstKey takes the first key that a message has. Only ErrNoKey makes it try the next: a malformed key is an error.
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

// WithKey returns a copy of a header to send that has the key in KeyHeader, as KeyByHeader reads it, and nothing else under any
// spelling of that name.
func WithKey(header map[string]string, key string) map[string]string {
	h := make(map[string]string, len(header)+1)
	for name, value := range header {
		if !strings.EqualFold(name, KeyHeader) {
			h[name] = value
		}
	}
	if strings.HasPrefix(key, `"`) { // it would be taken for a quoted one
		key = `"` + escapeQuoted.Replace(key) + `"`
	}
	h[KeyHeader] = key
	return h
}

var escapeQuoted = strings.NewReplacer(`\`, `\\`, `"`, `\"`)
