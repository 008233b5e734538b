package keytext

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"
)

// parseStringItem reads a structured-field item (RFC 9651, section 4.2.3) that is a string. Parameters are checked
// and dropped. The text has no white space around it.
func parseStringItem(text string) (string, bool) {
	p := sfParser{text}
	value, ok := p.quoted()
	return value, ok && p.parameters() && p.rest == ""
}

// sfParser reads structured fields from the front of rest.
type sfParser struct{ rest string }

// next consumes one character if it is c.
func (p *sfParser) next(c byte) bool {
	if p.rest == "" || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

// take consumes the longest prefix whose characters all satisfy ok.
func (p *sfParser) take(ok func(byte) bool) string {
	i := 0
	for i < len(p.rest) && ok(p.rest[i]) {
		i++
	}
	taken := p.rest[:i]
	p.rest = p.rest[i:]
	return taken
}

// quoted reads a string. Most strings have no escapes and are not copied.
func (p *sfParser) quoted() (string, bool) {
	if !p.next('"') {
		return "", false
	}
	for i := range len(p.rest) {
		switch c := p.rest[i]; {
		case c == '"':
			value := p.rest[:i]
			p.rest = p.rest[i+1:]
			return value, true
		case c == '\\':
			return p.escaped(i)
		case c < 0x20 || c > 0x7e:
			return "", false
		}
	}
	return "", false
}

// escaped reads the rest of a string that has its first backslash at i.
func (p *sfParser) escaped(i int) (string, bool) {
	value := append(make([]byte, 0, len(p.rest)), p.rest[:i]...)
	for ; i < len(p.rest); i++ {
		c := p.rest[i]
		switch {
		case c == '"':
			p.rest = p.rest[i+1:]
			return string(value), true
		case c == '\\':
			i++
			if i == len(p.rest) || p.rest[i] != '"' && p.rest[i] != '\\' {
				return "", false
			}
			c = p.rest[i]
		case c < 0x20 || c > 0x7e:
			return "", false
		}
		value = append(value, c)
	}
	return "", false
}

// parameters reads ;key=value;key … to the end of the item.
func (p *sfParser) parameters() bool {
	for p.next(';') {
		p.take(func(c byte) bool { return c == ' ' })
		if p.rest == "" || !isLower(p.rest[0]) && p.rest[0] != '*' {
			return false
		}
		p.take(func(c byte) bool { return isLower(c) || isDigit(c) || strings.IndexByte("_-.*", c) >= 0 })
		if p.next('=') && !p.bareItem() {
			return false
		}
	}
	return true
}

// bareItem reads a value of any type.
func (p *sfParser) bareItem() bool {
	if p.rest == "" {
		return false
	}
	switch c := p.rest[0]; {
	case c == '"':
		_, ok := p.quoted()
		return ok
	case c == '-' || isDigit(c):
		_, ok := p.number()
		return ok
	case c == '?':
		p.next('?')
		return p.next('0') || p.next('1')
	case c == ':':
		return p.byteSequence()
	case c == '@':
		p.next('@')
		decimal, ok := p.number()
		return ok && !decimal
	case c == '%':
		return p.displayString()
	case isLetter(c) || c == '*':
		p.take(isTokenChar)
		return true
	}
	return false
}

// number reads an integer of up to 15 digits, or a decimal of up to 12 and 3.
func (p *sfParser) number() (decimal, ok bool) {
	p.next('-')
	whole := p.take(isDigit)
	if !p.next('.') {
		return false, 1 <= len(whole) && len(whole) <= 15
	}
	fraction := p.take(isDigit)
	return true, 1 <= len(whole) && len(whole) <= 12 && 1 <= len(fraction) && len(fraction) <= 3
}

func (p *sfParser) byteSequence() bool {
	p.next(':')
	text := p.take(func(c byte) bool { return isLetter(c) || isDigit(c) || strings.IndexByte("+/=", c) >= 0 })
	if !p.next(':') {
		return false
	}
	_, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(text, "="))
	return err == nil
}

// displayString reads %"…" whose percent-decoded content is UTF-8.
func (p *sfParser) displayString() bool {
	p.next('%')
	if !p.next('"') {
		return false
	}
	var decoded []byte
	for p.rest != "" {
		c := p.rest[0]
		p.rest = p.rest[1:]
		switch {
		case c == '"':
			return utf8.Valid(decoded)
		case c < 0x20 || c > 0x7e:
			return false
		case c == '%':
			if len(p.rest) < 2 || !isLowerHex(p.rest[0]) || !isLowerHex(p.rest[1]) {
				return false
			}
			c = unhex(p.rest[0])<<4 | unhex(p.rest[1])
			p.rest = p.rest[2:]
		}
		decoded = append(decoded, c)
	}
	return false
}

func isDigit(c byte) bool    { return '0' <= c && c <= '9' }
func isLower(c byte) bool    { return 'a' <= c && c <= 'z' }
func isLetter(c byte) bool   { return isLower(c | 0x20) }
func isLowerHex(c byte) bool { return isDigit(c) || 'a' <= c && c <= 'f' }

func unhex(c byte) byte {
	if isDigit(c) {
		return c - '0'
	}
	return c - 'a' + 10
}

// isTokenChar reports characters of structured-field tokens: those of HTTP, colon and slash.
func isTokenChar(c byte) bool { return c == ':' || c == '/' || IsFieldNameChar(c) }

// IsFieldNameChar reports whether c may be in the name of a header field (tchar of RFC 9110).
func IsFieldNameChar(c byte) bool {
	return isLetter(c) || isDigit(c) || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}
