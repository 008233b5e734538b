// Package keytext reads idempotency keys as clients write them: in a header field, a metadata entry, or a field of
// the request. All adapters read them in the same way, so that "k" and k are one key in every protocol.
//
// key.go has the syntax of keys and UUIDs, sfv.go the structured fields (RFC 9651) in which keys are written.
package keytext

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Form is the way in which a key is written.
type Form uint8

// The forms. httpkey.Form says what each of them is.
const (
	StringOrBare Form = iota + 1
	StringOnly
	Bare
	UUID
	UUID4
	Text
	UUID7
)

// Syntax says what a key must look like. The zero Syntax is StringOrBare with 1 to 255 bytes.
type Syntax struct {
	Form Form
	// Min and Max length in bytes, after unquoting. Default 1 and 255.
	Min, Max int
	// Pattern must match the whole key too. Default: none.
	Pattern *regexp.Regexp
}

// WithDefaults fills in what is not set.
func (s Syntax) WithDefaults() Syntax {
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
	Malformed = "syntax"   // not a structured-field string
	Empty     = "empty"    // present, but empty
	Multiple  = "multiple" // more than one line
	Length    = "length"   // shorter than Min or longer than Max
	Charset   = "charset"  // a character that keys cannot have
	Format    = "format"   // not a UUID, or no match for Pattern
)

// Parse reads a key from the lines that carry it. If reason is not empty, it is one of the constants, and there is no
// key.
func (s Syntax) Parse(lines []string) (key, reason string) {
	if len(lines) > 1 {
		return "", Multiple
	}
	text := ""
	if len(lines) == 1 {
		text = strings.Trim(lines[0], " \t")
	}
	if text == "" {
		return "", Empty
	}
	s = s.WithDefaults()
	key, reason = s.unquote(text)
	if reason == "" {
		reason = s.check(key)
	}
	if reason != "" {
		return "", reason
	}
	return s.folded(key), ""
}

// ParseBare reads a key that is written without quotes. If reason is not empty, there is no key.
func (s Syntax) ParseBare(text string) (key, reason string) {
	if reason := s.Check(text); reason != "" {
		return "", reason
	}
	return s.folded(text), ""
}

// folded returns the one form of keys that are equal: UUIDs are the same in upper and lower case (RFC 9562, section
// 4).
func (s Syntax) folded(key string) string {
	if s.Form == UUID || s.Form == UUID4 || s.Form == UUID7 {
		return strings.ToLower(key)
	}
	return key
}

// unquote returns the key that text stands for.
func (s Syntax) unquote(text string) (key, reason string) {
	quoted := text[0] == '"' && s.Form != Bare && s.Form != Text
	switch {
	case quoted:
		key, ok := parseStringItem(text)
		if !ok {
			return "", Malformed
		}
		return key, ""
	case s.Form == StringOnly:
		return "", Malformed
	case s.Form == Bare && text == `""`:
		return "", Empty
	}
	return text, s.checkBare(text)
}

// checkBare checks the characters of a key without quotes.
func (s Syntax) checkBare(key string) (reason string) {
	if s.Form == Text {
		if !utf8.ValidString(key) || strings.ContainsFunc(key, unicode.IsControl) {
			return Charset
		}
		return ""
	}
	for i := range len(key) {
		c := key[i]
		if c < 0x21 || c > 0x7e || s.Form != Bare && (c == '"' || c == ',' || c == ';' || c == '\\') {
			return Charset
		}
	}
	return ""
}

// Check checks a key that is written without quotes. If reason is not empty, it says what is wrong.
func (s Syntax) Check(key string) (reason string) {
	s = s.WithDefaults()
	if reason := s.checkBare(key); reason != "" {
		return reason
	}
	return s.check(key)
}

// check checks what holds for every key, however it was written.
func (s Syntax) check(key string) (reason string) {
	switch {
	case key == "":
		return Empty
	case len(key) < s.Min || len(key) > s.Max:
		return Length
	case s.Form == UUID && !IsUUID(key), s.Form == UUID4 && !isUUID(key, '4'), s.Form == UUID7 && !isUUID(key, '7'):
		return Format
	case s.Pattern != nil && !matchesWhole(s.Pattern, key):
		return Format
	}
	return ""
}

// matchesWhole reports whether p matches all of key. It prefers the longest match, because otherwise "a|ab" would
// match only the a of ab.
func matchesWhole(p *regexp.Regexp, key string) bool {
	longest := *p
	longest.Longest()
	at := longest.FindStringIndex(key)
	return at != nil && at[0] == 0 && at[1] == len(key)
}

// IsUUID reports whether s is a UUID in its usual form of 36 characters.
func IsUUID(s string) bool {
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

// isUUID reports whether s is a UUID of that version (RFC 9562).
func isUUID(s string, version byte) bool {
	return IsUUID(s) && s[14] == version && strings.IndexByte("89abAB", s[19]) >= 0
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// UUIDOf writes the first 32 hex digits, in lower case, as a UUID of that version (RFC 9562).
func UUIDOf(digits string, version byte) string {
	b := []byte(digits[:32])
	b[12] = version
	b[16] = "89ab"[unhex(b[16])&3]
	return string(b[:8]) + "-" + string(b[8:12]) + "-" + string(b[12:16]) + "-" + string(b[16:20]) + "-" + string(b[20:])
}

// UUID7Time returns when a UUID of version 7 was made (RFC 9562, section 5.7); ok is false if text is not one.
func UUID7Time(text string) (made time.Time, ok bool) {
	if !IsUUID(text) || text[14] != '7' {
		return time.Time{}, false
	}
	ms, err := strconv.ParseInt(text[:8]+text[9:13], 16, 64)
	return time.UnixMilli(ms), err == nil
}

// RandomUUID7 returns a UUID of version 7, of this moment (RFC 9562, section 5.7).
func RandomUUID7() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	now := uint64(time.Now().UnixMilli())
	binary.BigEndian.PutUint64(b[:8], now<<16|uint64(b[6])<<8|uint64(b[7]))
	return UUIDOf(hex.EncodeToString(b[:]), '7')
}

// RandomUUID returns a UUID of version 4 (RFC 9562, section 5.4).
func RandomUUID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the program first
	return UUIDOf(hex.EncodeToString(b[:]), '4')
}
