package httpsignals

import "strings"

// UpperSnake returns a slug such as "key-reused" as KEY_REUSED.
func UpperSnake(slug string) string { return strings.ToUpper(LowerSnake(slug)) }

// LowerSnake returns a slug such as "key-reused" as key_reused.
func LowerSnake(slug string) string { return strings.ReplaceAll(slug, "-", "_") }

// Camel returns a slug such as "key-reused" as KeyReused.
func Camel(slug string) string {
	var b strings.Builder
	for word := range strings.SplitSeq(slug, "-") {
		if word != "" {
			b.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	return b.String()
}
