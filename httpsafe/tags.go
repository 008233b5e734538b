package httpsafe

import (
	"errors"
	"net/http"
	"strings"

	"github.com/retrysafe/retrysafe/fingerprint"
)

// TagPlace is where the value of a tag is in a request: in one of four places.
type TagPlace struct {
	// Pointer is a JSON pointer (RFC 6901) into the body: "/order/id". It gives a string, or the JSON text of another
	// value that is not null, and finds nothing in a body that is not read for the comparison of requests
	// (FingerprintNone).
	Pointer string
	// Header is the name of a header field. The first of several counts.
	Header string
	// PathValue is the name of a wildcard of the http.ServeMux pattern.
	PathValue string
	// Query is the name of a parameter of the query. The first of several counts.
	Query string
}

// prefixes of the text of places outside of the body.
const (
	headerPlace = "header:"
	pathPlace   = "path:"
	queryPlace  = "query:"
)

// String returns the place as text: "/order/id", "header:X-Order-Id", "path:id" or "query:order".
func (p TagPlace) String() string {
	switch {
	case p.Header != "":
		return headerPlace + p.Header
	case p.PathValue != "":
		return pathPlace + p.PathValue
	case p.Query != "":
		return queryPlace + p.Query
	}
	return p.Pointer
}

// MarshalText implements encoding.TextMarshaler.
func (p TagPlace) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads what String returns.
func (p *TagPlace) UnmarshalText(text []byte) error {
	s := string(text)
	for prefix, field := range map[string]*string{headerPlace: &p.Header, pathPlace: &p.PathValue, queryPlace: &p.Query} {
		if name, ok := strings.CutPrefix(s, prefix); ok && name != "" {
			*field = name
			return nil
		}
	}
	p.Pointer = s
	return p.Validate()
}

// Validate returns an error if the tag has no place or several, or if Pointer is not a JSON pointer.
func (p TagPlace) Validate() error {
	set := 0
	for _, s := range []string{p.Pointer, p.Header, p.PathValue, p.Query} {
		if s != "" {
			set++
		}
	}
	if set != 1 || p.Pointer != "" && p.Pointer[0] != '/' {
		return errors.New("a tag comes from one place: a JSON pointer such as /order/id, header:NAME, path:NAME or query:NAME")
	}
	if p.Pointer == "" {
		return nil
	}
	return fingerprint.Fields{Include: []string{p.Pointer}}.Validate()
}

// Value returns what is at the place in a request with this body; "" if there is nothing that can be a tag's value.
func (p TagPlace) Value(r *http.Request, body []byte) string {
	switch {
	case p.Header != "":
		return r.Header.Get(p.Header)
	case p.PathValue != "":
		return r.PathValue(p.PathValue)
	case p.Query != "":
		return r.URL.Query().Get(p.Query)
	}
	text, _, _ := fingerprint.JSONKey(body, p.Pointer)
	return text
}
