package httpkey

import (
	"bytes"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/retrysafe/retrysafe/fingerprint"
	"github.com/retrysafe/retrysafe/internal/jsonpointer"
)

// InBody is a key that the client chooses, in a member of the JSON body or in the query. It is a httpsafe.KeySource.
type InBody struct {
	// Pointer to the key (RFC 6901), such as "/idempotency_key".
	Pointer string
	// Query parameter that is looked at first. Default: none.
	Query string
}

// NeedsBody reports whether Key reads the body.
func (k InBody) NeedsBody() bool { return k.Pointer != "" }

// Key returns the key of a request, or "" if it has none. A body that is not JSON holds no key, and neither does a
// null. Errors are *Error.
//
// A body that contains the name of the member, but is invalid JSON or has a name twice, is refused as malformed.
// Other parsers may find a key in it, and the work must not run without its key. A body with a Content-Encoding is
// not decoded: decompress outside of the middleware.
func (k InBody) Key(r *http.Request, body []byte) (string, error) {
	if k.Query != "" {
		switch values := r.URL.Query()[k.Query]; {
		case len(values) > 1:
			return "", &Error{ReasonMultiple}
		case len(values) == 1 && values[0] == "":
			return "", &Error{ReasonEmpty}
		case len(values) == 1:
			return values[0], nil
		}
	}
	if k.Pointer == "" {
		return "", nil
	}
	text, ok, err := fingerprint.JSONKey(body, k.Pointer)
	switch {
	case err != nil && k.mentioned(body):
		return "", &Error{ReasonSyntax}
	case err != nil || !ok:
		return "", nil
	case text == "":
		return "", &Error{ReasonEmpty}
	}
	return text, nil
}

// mentioned reports whether the name of the key's member occurs in the body.
func (k InBody) mentioned(body []byte) bool {
	name := jsonpointer.Unescape(k.Pointer[strings.LastIndexByte(k.Pointer, '/')+1:])
	return bytes.Contains(body, []byte(strconv.Quote(name)))
}

// Validate returns an error if there is no place for a key, or if the pointer is not a JSON pointer.
func (k InBody) Validate() error {
	if k.Pointer == "" && k.Query == "" {
		return errors.New("httpkey: InBody needs a Pointer or a Query")
	}
	return fingerprint.Fields{Include: []string{k.Pointer}}.Validate()
}
