package crosscheck

import (
	"fmt"
	"strings"

	"pgregory.net/rapid"
)

// maxDepth is the maximum depth of generated JSON; both parsers allow more.
const maxDepth = 4

// jsonText generates JSON in many spellings. It is mostly valid, sometimes repeats names, and has strings that are
// not always valid text.
func jsonText() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		text := space(t) + value(t, 0) + space(t)
		if rapid.IntRange(0, 2).Draw(t, "damage") == 0 {
			text = damaged(t, text)
		}
		return text
	})
}

func value(t *rapid.T, depth int) string {
	most := 5
	if depth == maxDepth {
		most = 3
	}
	switch rapid.IntRange(0, most).Draw(t, "kind") {
	case 0:
		return rapid.SampledFrom([]string{"true", "false", "null"}).Draw(t, "literal")
	case 1, 2:
		return number(t)
	case 3:
		return quoted(t)
	case 4:
		return list(t, "[", "]", func() string { return value(t, depth+1) })
	}
	return list(t, "{", "}", func() string { return name(t) + space(t) + ":" + space(t) + value(t, depth+1) })
}

func list(t *rapid.T, open, end string, one func() string) string {
	var all []string
	for range rapid.IntRange(0, 4).Draw(t, "count") {
		all = append(all, space(t)+one()+space(t))
	}
	return open + strings.Join(all, ",") + end
}

func number(t *rapid.T) string {
	return rapid.OneOf(
		rapid.StringMatching(`-?(0|[1-9][0-9]{0,18})(\.[0-9]{1,5})?([eE][+-]?[0-9]{1,3})?`),
		rapid.SampledFrom([]string{
			"9007199254740993", "9007199254740992", "1.0", "1", "-0", "0", "1e999",
			"100000000000000000000000000000000000",
		}),
	).Draw(t, "number")
}

// name generates one of a few names, so that some repeat.
func name(t *rapid.T) string {
	if rapid.Bool().Draw(t, "long name") {
		return quoted(t)
	}
	return rapid.SampledFrom([]string{
		`""`, `"a"`, `"\u0061"`, `"b"`, `"a/b"`, `"a\/b"`, `"m~n"`, `"0"`, `"01"`, `"-"`, "\"\ufb33\"", `"😀"`,
		`"\uD83D\uDE00"`, "\"\uffff\"",
	}).Draw(t, "name")
}

func quoted(t *rapid.T) string {
	var s strings.Builder
	s.WriteByte('"')
	for range rapid.IntRange(0, 6).Draw(t, "length") {
		s.WriteString(piece(t))
	}
	s.WriteByte('"')
	return s.String()
}

func piece(t *rapid.T) string {
	switch rapid.IntRange(0, 12).Draw(t, "piece") {
	case 0:
		return rapid.SampledFrom([]string{`\"`, `\\`, `\/`, `\b`, `\f`, `\n`, `\r`, `\t`}).Draw(t, "escape")
	case 1, 2:
		return fmt.Sprintf(rapid.SampledFrom([]string{`\u%04x`, `\u%04X`}).Draw(t, "case"), rapid.Uint16().Draw(t, "unit"))
	case 3:
		high, low := rapid.IntRange(0xd7ff, 0xdbff).Draw(t, "high"), rapid.IntRange(0xdbff, 0xe000).Draw(t, "low")
		return fmt.Sprintf(`\u%04x\u%04x`, high, low)
	case 4:
		return rapid.SampledFrom([]string{
			"\u007f", "\u2028", "\ufffd", "\U0010ffff", "<", "&", "e\u0301",
			"/",
		}).Draw(t, "odd")
	}
	return strings.NewReplacer(`"`, "", `\`, "").Replace(rapid.String().Draw(t, "text"))
}

func space(t *rapid.T) string {
	return rapid.SampledFrom([]string{"", "", "", "", " ", "\n", "\r\n\t "}).Draw(t, "space")
}

// damaged drops, doubles or inserts a byte at a random position.
func damaged(t *rapid.T, text string) string {
	at := rapid.IntRange(0, len(text)-1).Draw(t, "at")
	switch rapid.IntRange(0, 2).Draw(t, "how") {
	case 0:
		return text[:at] + text[at+1:]
	case 1:
		return text[:at] + text[at:at+1] + text[at:]
	}
	other := rapid.SampledFrom([]string{
		"\x00", "\xff", "\xed\xa0\x80", "\ufeff", "0", ",", "]", "}", `"`, `\`, "-",
		"e", ".", "x", "\x01",
	})
	return text[:at] + other.Draw(t, "other") + text[at:]
}
