package httpsafe

import (
	"errors"
	"net/http"
	"slices"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/fingerprint"
	"github.com/retrysafe/retrysafe/httpkey"
)

// KeySource finds the key of a request that does not carry it in a header. [KeyInBody], [NaturalKey] and [BodyHash] are
// key sources; write your own for other places. It must be safe for concurrent use. [Options.Validate] calls its method
// Validate() error, if it has one.
type KeySource interface {
	// NeedsBody reports whether Key reads the body.
	NeedsBody() bool
	// Key returns the key, or "" if the request has none. Its error is a *httpkey.Error if there is a key that cannot be
	// used; the request is then refused. body is nil unless NeedsBody; it must not be changed or kept.
	Key(r *http.Request, body []byte) (string, error)
}

// KeyInBody is a key that the client chooses, in a member of the JSON body or in the query.
type KeyInBody = httpkey.InBody

// NaturalKey builds the key from what identifies the operation in the request itself, for clients that send no key:
// with PathValues "id" and Fields "/month", a second invoice for the same customer and month is a retry. A request
// that lacks a part, or has null for it, is refused as malformed.
type NaturalKey struct {
	// PathValues are wildcards of the http.ServeMux pattern.
	PathValues []string
	// Fields are JSON pointers into the body.
	Fields []string
	// Reference is a header by which a client tells a legitimate repeat from a retry; it need not be sent.
	Reference string
}

// NeedsBody implements KeySource.
func (k NaturalKey) NeedsBody() bool { return len(k.Fields) > 0 }

// Key implements KeySource. The operation (method and pattern) is part of the key.
func (k NaturalKey) Key(r *http.Request, body []byte) (string, error) {
	parts := append(make([]string, 0, 16), r.Method, routeOf(r))
	for _, name := range k.PathValues {
		value := r.PathValue(name)
		if value == "" {
			return "", &httpkey.Error{Reason: httpkey.ReasonFormat}
		}
		parts = append(parts, name, value)
	}
	for _, pointer := range k.Fields {
		text, ok, err := fingerprint.JSONKey(body, pointer)
		if err != nil || !ok {
			return "", &httpkey.Error{Reason: httpkey.ReasonFormat}
		}
		parts = append(parts, pointer, text)
	}
	reference, err := optionalHeader(r, k.Reference)
	if err != nil {
		return "", err
	}
	return retrysafe.NaturalID(append(parts, reference)...), nil
}

// Validate returns an error if no part is named, or if a field is not a JSON pointer.
func (k NaturalKey) Validate() error {
	if len(k.PathValues)+len(k.Fields) == 0 {
		return errors.New("httpsafe: NaturalKey needs PathValues or Fields")
	}
	return fingerprint.Fields{Include: k.Fields}.Validate()
}

// BodyHash builds the key from the body, for clients that send no key: the same body is a retry for as long as the
// key is kept (Retention.Key).
type BodyHash struct {
	// Secret of the HMAC. Required, so that a stored key does not give the body away.
	Secret []byte
	// Fields of a JSON body that count. Default: the whole body. A body that has none of Fields.Include is refused as
	// malformed.
	Fields fingerprint.Fields
	// Intent is a header by which a client tells a legitimate repeat from a retry; it need not be sent.
	Intent string
}

// NeedsBody implements KeySource.
func (BodyHash) NeedsBody() bool { return true }

// Key implements KeySource. Method, path and query are part of the key.
func (k BodyHash) Key(r *http.Request, body []byte) (string, error) {
	intent, err := optionalHeader(r, k.Intent)
	if err != nil {
		return "", err
	}
	if !k.hasFields(body) {
		return "", &httpkey.Error{Reason: httpkey.ReasonFormat}
	}
	part := fingerprint.JSONPart(body, k.Fields)
	return retrysafe.BodyHashID(k.Secret, intent, r.Method, targetOf(r), r.URL.RawQuery, part), nil
}

// hasFields reports whether body has at least one of the fields that make the key. Requests without any of them must
// not share a key.
func (k BodyHash) hasFields(body []byte) bool {
	if len(k.Fields.Include) == 0 {
		return true
	}
	return slices.ContainsFunc(k.Fields.Include, func(pointer string) bool {
		_, ok, err := fingerprint.JSONKey(body, pointer)
		return ok || err != nil // a body that is not JSON counts as a whole
	})
}

// Validate returns an error if there is no secret, or if a field is not a JSON pointer.
func (k BodyHash) Validate() error {
	if len(k.Secret) == 0 {
		return errors.New("httpsafe: BodyHash needs a Secret")
	}
	return k.Fields.Validate()
}

// optionalHeader returns the one value of a header; "" if it is missing.
func optionalHeader(r *http.Request, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	values := r.Header.Values(name)
	switch len(values) {
	case 0:
		return "", nil
	case 1:
		return values[0], nil
	}
	return "", &httpkey.Error{Reason: httpkey.ReasonMultiple}
}

func routeOf(r *http.Request) string {
	if r.Pattern != "" {
		return r.Pattern
	}
	return targetOf(r)
}

// targetOf returns the path of a request as it was written. A target such as "x:pay" has no path, but some frameworks
// route by it.
func targetOf(r *http.Request) string {
	if r.URL.Opaque != "" {
		return r.URL.Scheme + ":" + r.URL.Opaque
	}
	return r.URL.EscapedPath()
}

// headerKey reads the key from the headers of the request. found holds the name and the lines as received.
func (c *config) headerKey(r *http.Request) (key string, found field, err error) {
	for _, name := range c.headers {
		values := r.Header[name]
		switch {
		case len(values) == 0:
		case found.name != "":
			return "", found, &httpkey.Error{Reason: httpkey.ReasonMultiple}
		default:
			found = field{name: name, values: values}
		}
	}
	if found.name == "" {
		return "", found, nil
	}
	key, err = c.Profile.KeySyntax.ParseHeader(found.values)
	return key, found, err
}
