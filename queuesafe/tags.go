package queuesafe

import (
	"errors"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/fingerprint"
	"github.com/retrysafe/retrysafe/internal/tagplace"
)

// TagFunc returns the value of a tag of a message; "" if the message has none. Its panic counts as no value.
type TagFunc func(m Message) string

// TagByHeader returns the value of a header. The first of several counts.
func TagByHeader(name string) TagFunc {
	return func(m Message) string {
		if values := m.Header.Values(name); len(values) > 0 {
			return values[0]
		}
		return ""
	}
}

// TagByField returns the value at a JSON pointer (RFC 6901) in the body, such as "/order/id": a string, or the JSON text
// of another value that is not null. It panics if pointer is not the JSON pointer of a member or an element.
func TagByField(pointer string) TagFunc {
	if err := (fingerprint.Fields{Include: []string{pointer}}).Validate(); err != nil || pointer == "" {
		panic("queuesafe: TagByField needs a JSON pointer such as /order/id, not " + pointer)
	}
	return func(m Message) string {
		text, _, _ := fingerprint.JSONKey(m.Body, pointer)
		return text
	}
}

// tags returns the tags of a message.
func (c *Consumer) tags(m Message) retrysafe.Tags {
	return tagplace.Read(c.options.Tags, func(find TagFunc) (value string) {
		defer func() {
			if recover() != nil {
				value = "" // else it would take the process down on every delivery
			}
		}()
		return find(m)
	})
}

// validate returns an error if there is no function.
func (f TagFunc) validate() error {
	if f == nil {
		return errors.New("there is no function: use TagByHeader, TagByField or one of yours")
	}
	return nil
}
