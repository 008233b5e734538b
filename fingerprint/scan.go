package fingerprint

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// quoted reads a string, and reports whether it has escapes.
func (p *jsonParser) quoted() (escaped bool, err error) {
	p.pos++ // the opening quote
	for p.pos < len(p.src) {
		switch c := p.src[p.pos]; {
		case c == '"':
			p.pos++
			return escaped, nil
		case c == '\\':
			escaped = true
			_, n, fault := unescape(p.src[p.pos:])
			p.pos += n
			if fault != "" {
				return true, p.fail(fault)
			}
		case c < ' ':
			return false, p.fail("control character in a string")
		default:
			p.pos++
		}
	}
	return false, p.fail("string without an end")
}

// endOfString returns where the string that begins at src[start] ends, behind its closing quote; or the end of src.
func endOfString(src []byte, start int) int {
	for i := start + 1; i < len(src); i++ {
		switch src[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(src)
}

// endOfScalar returns where the number, true, false or null ends with which src begins.
func endOfScalar(src []byte) int {
	if i := bytes.IndexAny(src, ",]} \t\r\n"); i >= 0 {
		return i
	}
	return len(src)
}

// appendUnescaped appends the text inside the quotes of a string that has been read.
func appendUnescaped(b, quoted []byte) []byte {
	for {
		i := bytes.IndexByte(quoted, '\\')
		if i < 0 {
			return append(b, quoted...)
		}
		r, n, _ := unescape(quoted[i:])
		b = utf8.AppendRune(append(b, quoted[:i]...), r)
		quoted = quoted[i+n:]
	}
}

// unescape returns the rune whose escape b begins with, and how many bytes it takes; or what is wrong, and after how
// many bytes.
func unescape(b []byte) (r rune, n int, fault string) {
	if len(b) < 2 {
		return 0, 1, "string without an end"
	}
	if b[1] == 'u' {
		return unescapeUnicode(b)
	}
	i := strings.IndexByte(`"\/bfnrt`, b[1])
	if i < 0 {
		return 0, 2, "unknown escape in a string"
	}
	return rune("\"\\/\b\f\n\r\t"[i]), 2, ""
}

func unescapeUnicode(b []byte) (r rune, n int, fault string) {
	r, fault = hexDigits(b[2:])
	if fault != "" {
		return 0, 2, fault
	}
	if !utf16.IsSurrogate(r) {
		return r, 6, ""
	}
	if !bytes.HasPrefix(b[6:], []byte(`\u`)) {
		return 0, 6, "half a surrogate pair"
	}
	low, fault := hexDigits(b[8:])
	if fault != "" {
		return 0, 8, fault
	}
	if r = utf16.DecodeRune(r, low); r == unicode.ReplacementChar {
		return 0, 12, "half a surrogate pair"
	}
	return r, 12, ""
}

// hexDigits reads four hexadecimal digits.
func hexDigits(b []byte) (r rune, fault string) {
	if len(b) < 4 {
		return 0, "string without an end"
	}
	for _, c := range b[:4] {
		switch {
		case isDigit(c):
			c -= '0'
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, "unknown escape in a string"
		}
		r = r<<4 | rune(c)
	}
	return r, ""
}

func (p *jsonParser) number() error {
	if p.peek() == '-' {
		p.pos++
	}
	whole := p.digits()
	if whole == 0 || whole > 1 && p.src[p.pos-whole] == '0' {
		return p.fail("malformed number")
	}
	if p.peek() == '.' {
		p.pos++
		if p.digits() == 0 {
			return p.fail("malformed number")
		}
	}
	if c := p.peek(); c == 'e' || c == 'E' {
		p.pos++
		if c := p.peek(); c == '+' || c == '-' {
			p.pos++
		}
		if p.digits() == 0 {
			return p.fail("malformed number")
		}
	}
	return nil
}

// digits skips decimal digits and returns how many there were.
func (p *jsonParser) digits() int {
	start := p.pos
	for isDigit(p.peek()) {
		p.pos++
	}
	return p.pos - start
}

func (p *jsonParser) literal() error {
	for _, word := range [...]string{"true", "false", "null"} {
		if rest := p.src[p.pos:]; len(rest) >= len(word) && string(rest[:len(word)]) == word {
			p.pos += len(word)
			return nil
		}
	}
	return p.fail("want a value")
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
