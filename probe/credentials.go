package probe

import (
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe/probe/wire"
)

// Credentials are what identifies callers, by the caller's name for people: "A". They are left out of reports.
type Credentials map[string][]wire.HeaderLine

// leastSecret is the length from which a credential is searched in texts: a shorter one may be a part of other words.
const leastSecret = 6

// Mask removes credentials from a text, without the scheme before them, such as Bearer. It looks for values of at least
// leastSecret characters only.
func (c Credentials) Mask(text string) string {
	for _, lines := range c {
		for _, secret := range lines {
			value := secret.Value[strings.LastIndexByte(secret.Value, ' ')+1:]
			if len(value) >= leastSecret {
				text = strings.ReplaceAll(text, value, "(credential)")
			}
		}
	}
	return text
}

// Hide returns header lines in which the values of credentials are replaced by their caller's name. The caller is the
// one whose credential is there completely; a part of one is hidden as "other".
func (c Credentials) Hide(lines []wire.HeaderLine) []wire.HeaderLine {
	has := func(h wire.HeaderLine) bool {
		return slices.ContainsFunc(lines, func(l wire.HeaderLine) bool {
			return strings.EqualFold(l.Name, h.Name) &&
				l.Value == h.Value
		})
	}
	whose, names := "other", map[string]bool{}
	for name, credential := range c {
		if len(credential) > 0 && !slices.ContainsFunc(credential, func(h wire.HeaderLine) bool { return !has(h) }) {
			whose = name
		}
		for _, h := range credential {
			names[strings.ToLower(h.Name)] = true
		}
	}
	hidden := slices.Clone(lines)
	for i, l := range hidden {
		if names[strings.ToLower(l.Name)] {
			hidden[i].Value = "(credential " + whose + ")"
		}
	}
	return hidden
}
