package retrysafe

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// quoted reads a string.
func (p *jsonParser) quoted() (string, error) {
	p.pos++ // the opening quote
	var unescaped []byte
	start := p.pos
	for p.pos < len(p.src) {
		switch c := p.src[p.pos]; {
		case c == '"':
			tail := p.src[start:p.pos]
			p.pos++
			if unescaped == nil {
				return tail, nil
			}
			return string(append(unescaped, tail...)), nil
		case c == '\\':
			unescaped = append(unescaped, p.src[start:p.pos]...)
			r, err := p.escape()
			if err != nil {
				return "", err
			}
			unescaped = utf8.AppendRune(unescaped, r)
			start = p.pos
		case c < ' ':
			return "", p.fail("control character in a string")
		default:
			p.pos++
		}
	}
	return "", p.fail("string without an end")
}

func (p *jsonParser) escape() (rune, error) {
	p.pos++ // the backslash
	c := p.peek()
	p.pos++
	if c == 'u' {
		return p.unicodeEscape()
	}
	i := strings.IndexByte(`"\/bfnrt`, c)
	if i < 0 {
		return 0, p.fail("unknown escape in a string")
	}
	return rune("\"\\/\b\f\n\r\t"[i]), nil
}

func (p *jsonParser) unicodeEscape() (rune, error) {
	r, err := p.hex()
	if err != nil || !utf16.IsSurrogate(r) {
		return r, err
	}
	if !strings.HasPrefix(p.src[p.pos:], `\u`) {
		return 0, p.fail("half a surrogate pair")
	}
	p.pos += 2
	low, err := p.hex()
	if err != nil {
		return 0, err
	}
	if r = utf16.DecodeRune(r, low); r == unicode.ReplacementChar {
		return 0, p.fail("half a surrogate pair")
	}
	return r, nil
}

func (p *jsonParser) hex() (rune, error) {
	if len(p.src)-p.pos < 4 {
		return 0, p.fail("string without an end")
	}
	r, err := strconv.ParseUint(p.src[p.pos:p.pos+4], 16, 16)
	if err != nil {
		return 0, p.fail("unknown escape in a string")
	}
	p.pos += 4
	return rune(r), nil
}

func (p *jsonParser) number() (string, error) {
	start := p.pos
	if p.peek() == '-' {
		p.pos++
	}
	whole := p.digits()
	if whole == 0 || whole > 1 && p.src[p.pos-whole] == '0' {
		return "", p.fail("malformed number")
	}
	if p.peek() == '.' {
		p.pos++
		if p.digits() == 0 {
			return "", p.fail("malformed number")
		}
	}
	if c := p.peek(); c == 'e' || c == 'E' {
		p.pos++
		if c := p.peek(); c == '+' || c == '-' {
			p.pos++
		}
		if p.digits() == 0 {
			return "", p.fail("malformed number")
		}
	}
	return p.src[start:p.pos], nil
}

// digits skips decimal digits and returns how many there were.
func (p *jsonParser) digits() int {
	start := p.pos
	for isDigit(p.peek()) {
		p.pos++
	}
	return p.pos - start
}

func (p *jsonParser) literal() (string, error) {
	for _, word := range [...]string{"true", "false", "null"} {
		if strings.HasPrefix(p.src[p.pos:], word) {
			p.pos += len(word)
			return word, nil
		}
	}
	return "", p.fail("want a value")
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
