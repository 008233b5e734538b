package httpsafe

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// KeyForm says how a key is written.
type KeyForm uint8

const (
	// StringOrBare: a structured-field string ("quoted"), or the same without quotes. Both name the same key. Default.
	StringOrBare KeyForm = iota + 1
	// StringOnly: a structured-field string, as the draft has it.
	StringOnly
	// Bare: visible ASCII as it stands; quotes are part of the key. Two quotes around nothing are an empty key nevertheless: they are what
	// a client writes that has none.
	Bare
	// UUID: a UUID in its usual form of 36 characters, of any version, in upper or lower case: that is the same key (RFC 9562 §4).
	UUID
	// UUID4: a random UUID (version 4).
	UUID4
	// Text: any UTF-8 text without control characters, for keys that come in a body.
	Text
)

// KeySyntax says what a key must look like. The zero KeySyntax is StringOrBare of 1 to 255 bytes.
type KeySyntax struct {
	Form KeyForm
	// Min and Max length in bytes, after unquoting. Default 1 and 255; Max is at most retrysafe.MaxKeyBytes.
	Min, Max int
	// Pattern that the whole key must match besides. Default: none.
	Pattern *regexp.Regexp
}

func (s KeySyntax) withDefaults() KeySyntax {
	if s.Form == 0 {
		s.Form = StringOrBare
	}
	if s.Min <= 0 {
		s.Min = 1
	}
	if s.Max <= 0 {
		s.Max = 255
	}
	return s
}

// Why a key is malformed.
const (
	ReasonSyntax   = "syntax"   // not a structured-field string, or in a body that cannot be read
	ReasonEmpty    = "empty"    // there, but empty
	ReasonMultiple = "multiple" // more than one field line
	ReasonLength   = "length"   // shorter than Min or longer than Max
	ReasonCharset  = "charset"  // a character that keys cannot hold
	ReasonFormat   = "format"   // not a UUID, no match for Pattern, not to be had from the request, or a first-sent date that is none or lies ahead
)

// KeyError is the error for a malformed key. It never holds the key.
type KeyError struct {
	// Reason is one of the Reason constants.
	Reason string
}

func (e *KeyError) Error() string { return "httpsafe: malformed key: " + e.Reason }

// ParseKey reads a key from the lines of its header field. No lines is a key of reason ReasonEmpty too: look first.
// Errors are *KeyError.
func ParseKey(values []string, syntax KeySyntax) (string, error) {
	if len(values) > 1 {
		return "", &KeyError{ReasonMultiple}
	}
	text := ""
	if len(values) == 1 {
		text = strings.Trim(values[0], " \t")
	}
	if text == "" {
		return "", &KeyError{ReasonEmpty}
	}
	s := syntax.withDefaults()
	key, err := s.unquote(text)
	if err != nil {
		return "", err
	}
	if err := s.check(key); err != nil {
		return "", err
	}
	if s.Form == UUID || s.Form == UUID4 {
		return strings.ToLower(key), nil
	}
	return key, nil
}

// unquote returns what text stands for.
func (s KeySyntax) unquote(text string) (string, error) {
	quoted := text[0] == '"' && s.Form != Bare && s.Form != Text
	switch {
	case quoted:
		key, ok := parseStringItem(text)
		if !ok {
			return "", &KeyError{ReasonSyntax}
		}
		return key, nil
	case s.Form == StringOnly:
		return "", &KeyError{ReasonSyntax}
	case s.Form == Bare && text == `""`:
		return "", &KeyError{ReasonEmpty}
	}
	return text, s.checkBare(text)
}

// checkBare looks at the characters of a key without quotes.
func (s KeySyntax) checkBare(key string) error {
	if s.Form == Text {
		if !utf8.ValidString(key) || strings.ContainsFunc(key, unicode.IsControl) {
			return &KeyError{ReasonCharset}
		}
		return nil
	}
	for i := range len(key) {
		c := key[i]
		if c < 0x21 || c > 0x7e || s.Form != Bare && (c == '"' || c == ',' || c == ';' || c == '\\') {
			return &KeyError{ReasonCharset}
		}
	}
	return nil
}

// checkValue looks at a key that was not in a header.
func (s KeySyntax) checkValue(key string) error {
	if err := s.checkBare(key); err != nil {
		return err
	}
	return s.check(key)
}

// check looks at what the key must be however it was written.
func (s KeySyntax) check(key string) error {
	switch {
	case key == "":
		return &KeyError{ReasonEmpty}
	case len(key) < s.Min || len(key) > s.Max:
		return &KeyError{ReasonLength}
	case s.Form == UUID && !isUUID(key), s.Form == UUID4 && !isUUID4(key):
		return &KeyError{ReasonFormat}
	case s.Pattern != nil && !matchesWhole(s.Pattern, key):
		return &KeyError{ReasonFormat}
	}
	return nil
}

func matchesWhole(p *regexp.Regexp, key string) bool {
	at := p.FindStringIndex(key)
	return at != nil && at[0] == 0 && at[1] == len(key)
}

func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		dash := i == 8 || i == 13 || i == 18 || i == 23
		if dash != (s[i] == '-') || !dash && !isHex(s[i]) {
			return false
		}
	}
	return true
}

func isUUID4(s string) bool {
	return isUUID(s) && s[14] == '4' && strings.IndexByte("89abAB", s[19]) >= 0
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// String describes the syntax for people.
func (s KeySyntax) String() string {
	s = s.withDefaults()
	form := [...]string{"", "structured-field string or bare", "structured-field string", "bare", "UUID", "UUID version 4", "text"}[s.Form]
	text := fmt.Sprintf("%s, %d to %d bytes", form, s.Min, s.Max)
	if s.Pattern != nil {
		text += ", matching " + s.Pattern.String()
	}
	return text
}
