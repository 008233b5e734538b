package httpkey

import (
	"fmt"
	"regexp"

	"github.com/retrysafe/retrysafe/internal/keytext"
)

// Form is the way in which a key is written.
type Form uint8

const (
	// StringOrBare is a structured-field string ("quoted"), or the same without quotes. Both name the same key.
	// Default.
	StringOrBare = Form(keytext.StringOrBare)
	// StringOnly is a structured-field string, as in the IETF draft.
	StringOnly = Form(keytext.StringOnly)
	// Bare is visible ASCII; quotes are part of the key. Nevertheless `""` counts as an empty key, because clients
	// without a key write it.
	Bare = Form(keytext.Bare)
	// UUID is a UUID of any version in its usual form of 36 characters. Upper and lower case are the same key (RFC
	// 9562, section 4).
	UUID = Form(keytext.UUID)
	// UUID4 is a random UUID (version 4).
	UUID4 = Form(keytext.UUID4)
	// Text is any UTF-8 text without control characters, for keys that are in a body.
	Text = Form(keytext.Text)
	// UUID7 is a UUID that begins with the time at which it was made (version 7).
	UUID7 = Form(keytext.UUID7)
)

// Syntax says what a key must look like. The zero Syntax is [StringOrBare] with 1 to 255 bytes.
type Syntax struct {
	Form Form
	// Min and Max length in bytes, after unquoting. Default 1 and 255; Max is at most retrysafe.MaxKeyBytes.
	Min, Max int
	// Pattern that the whole key must match besides. Default: none.
	Pattern *regexp.Regexp
}

// WithDefaults returns the syntax with its defaults filled in.
func (s Syntax) WithDefaults() Syntax {
	d := s.text().WithDefaults()
	s.Form, s.Min, s.Max = Form(d.Form), d.Min, d.Max
	return s
}

// Why a key is malformed.
const (
	// ReasonSyntax: it is not a structured-field string, or the body that holds it cannot be parsed.
	ReasonSyntax = keytext.Malformed
	// ReasonEmpty: it is present, but empty.
	ReasonEmpty = keytext.Empty
	// ReasonMultiple: there is more than one field line.
	ReasonMultiple = keytext.Multiple
	// ReasonLength: it is shorter than Min or longer than Max.
	ReasonLength = keytext.Length
	// ReasonCharset: it has a character that keys cannot have.
	ReasonCharset = keytext.Charset
	// ReasonFormat: it is not a UUID, does not match Pattern, cannot be built from the request, or comes with a
	// Profile.FirstSent header that is not a date or is in the future.
	ReasonFormat = keytext.Format
)

// Error is the error for a malformed key. It never holds the key itself.
type Error struct {
	// Reason is one of the Reason constants.
	Reason string
}

func (e *Error) Error() string { return "httpkey: malformed key: " + e.Reason }

// ParseHeader reads a key from the lines of its header field. No lines at all are [ReasonEmpty] too: look first.
// Errors are *Error.
func (s Syntax) ParseHeader(values []string) (string, error) {
	key, reason := s.text().Parse(values)
	if reason != "" {
		return "", &Error{reason}
	}
	return key, nil
}

// Parse reads a key that is not in a header but stands for itself, as in a body or a query. Errors are *Error.
func (s Syntax) Parse(text string) (string, error) {
	key, reason := s.text().ParseBare(text)
	if reason != "" {
		return "", &Error{reason}
	}
	return key, nil
}

// text is the syntax as all adapters have it.
func (s Syntax) text() keytext.Syntax {
	return keytext.Syntax{Form: keytext.Form(s.Form), Min: s.Min, Max: s.Max, Pattern: s.Pattern}
}

// String describes the syntax for people.
func (s Syntax) String() string {
	s = s.WithDefaults()
	form := [...]string{
		"", "structured-field string or bare", "structured-field string", "bare", "UUID", "UUID version 4", "text",
		"UUID version 7",
	}[s.Form]
	text := fmt.Sprintf("%s, %d to %d bytes", form, s.Min, s.Max)
	if s.Pattern != nil {
		text += ", matching " + s.Pattern.String()
	}
	return text
}
