package fingerprint

import (
	"bytes"
	"errors"
	"math"
	"strconv"
)

// Numbers says when two JSON numbers are equal.
type Numbers uint8

const (
	// AsWritten: if they are written alike. 1.0 differs from 1. Default.
	AsWritten Numbers = iota
	// ByValue: if they have the same exact value. 1.0 equals 1 and 10e-1, and 9007199254740993 differs from
	// 9007199254740992. Exponents of more than 15 digits are compared as written.
	ByValue
	// AsDoubles: if they are the same IEEE 754 double, as RFC 8785 (JCS) has it. 9007199254740993 equals 9007199254740992,
	// which no double tells apart: use it only where a protocol says so. A number that is no finite double, such as 1e999,
	// has no canonical form.
	AsDoubles
)

var errNoDouble = errors.New("fingerprint: JSON: a number is too large for a double")

// appendNumber appends a number so that equal numbers are written alike.
func (d *jsonDoc) appendNumber(b, text []byte) []byte {
	switch d.numbers {
	case AsDoubles:
		f, err := strconv.ParseFloat(string(text), 64)
		d.noDouble = d.noDouble || err != nil
		return appendDouble(b, f)
	case ByValue:
		return appendExact(b, text)
	}
	return append(b, text...)
}

// appendDouble appends a number as RFC 8785, section 3.2.2.3, writes it: as ECMAScript does.
func appendDouble(b []byte, f float64) []byte {
	switch abs := math.Abs(f); {
	case f == 0: // also -0
		return append(b, '0')
	case abs >= 1e-6 && abs < 1e21:
		return strconv.AppendFloat(b, f, 'f', -1, 64)
	}
	start := len(b)
	b = strconv.AppendFloat(b, f, 'e', -1, 64)
	if n := len(b); n-start >= 4 && b[n-4] == 'e' && b[n-2] == '0' { // e-09 is e-9
		b = append(b[:n-2], b[n-1])
	}
	return b
}

// longestExponent is how many digits an exponent may have so that digits can be added to it, and never overflow.
const longestExponent = 15

// appendExact appends a number as digits without zeros at either end, and an exponent. It computes with the text, so
// that 1e999999999 takes no more memory than it has letters.
func appendExact(b, text []byte) []byte {
	rest, negative := bytes.CutPrefix(text, []byte("-"))
	at := bytes.IndexAny(rest, "eE")
	exponent := int64(0)
	if at >= 0 {
		written := bytes.TrimPrefix(rest[at+1:], []byte("+"))
		unsigned := bytes.TrimPrefix(written, []byte("-"))
		digits := bytes.TrimLeft(unsigned, "0")
		if len(digits) > longestExponent {
			return append(b, text...)
		}
		exponent, _ = strconv.ParseInt("0"+string(digits), 10, 64)
		if len(unsigned) < len(written) {
			exponent = -exponent
		}
		rest = rest[:at]
	}
	whole, fraction, _ := bytes.Cut(rest, []byte("."))
	digits := append(append(make([]byte, 0, len(rest)), whole...), fraction...)
	exponent -= int64(len(fraction))
	significant := bytes.TrimRight(digits, "0")
	exponent += int64(len(digits) - len(significant))
	significant = bytes.TrimLeft(significant, "0")
	if len(significant) == 0 {
		return append(b, '0')
	}
	if negative {
		b = append(b, '-')
	}
	b = append(b, significant...)
	if exponent != 0 {
		b = strconv.AppendInt(append(b, 'e'), exponent, 10)
	}
	return b
}
