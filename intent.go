package retrysafe

import (
	"strings"

	"github.com/retrysafe/retrysafe/internal/keytext"
)

// Intent names something that is to happen once: by the operation, and by the parameters that distinguish it from other
// intents, such as {"charge", {"order-17"}}. The same intent has the same key in every process and
// after every restart, whatever protocol carries it, so that a program that comes back to it asks again instead of
// doing it again.
//
// Use parameters that are unique for good and known before the first attempt: an order number that is committed, a
// month and a customer. A number that a rolled-back transaction gives back, or a digest of the request, is none: two
// operations would share a key, or one would have two.
type Intent struct {
	Operation string
	Params    []string
}

// Key returns the key of the intent: a UUID of version 8 (RFC 9562, section 5.8) made of NaturalID.
//
// Everyone who knows the parameters can compute the key. Servers look keys up together with the caller's credential, so
// a key need not be secret; do not use it as one.
func (i Intent) Key() string {
	return keytext.UUIDOf(NaturalID(append([]string{"retrysafe intent", i.Operation}, i.Params...)...), '8')
}

// String returns the intent as "charge(order-17)".
func (i Intent) String() string { return i.Operation + "(" + strings.Join(i.Params, ", ") + ")" }
