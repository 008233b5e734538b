package target

import (
	"encoding/json"
	"net/http"
	"net/url"
	"path"
	"strings"
)

// Faults in the reading of keys.
const (
	EmptyKeys      Fault = "empty keys are keys"         // and all the same one
	CutKeys        Fault = "keys are cut"                // at 255 characters, whatever their length
	ShortKeys      Fault = "short keys only"             // above 32 characters they are refused
	FirstLine      Fault = "the first line counts"       // of several
	LinesIgnored   Fault = "several lines are no key"    // the request runs unprotected
	BadIgnored     Fault = "malformed keys are no key"   // as RFC 9651 allows, and the request runs unprotected
	BareIgnored    Fault = "bare keys are no key"        // likewise
	QuotesIgnored  Fault = "quoted keys are no key"      // likewise
	QuotedIsOther  Fault = "quotes are part of the key"  // "k" and k are two keys
	ParamsCount    Fault = "parameters count"            // "k";v=1 and "k" are two keys
	ParamsRefused  Fault = "parameters are refused"      //
	FoldsCase      Fault = "case is folded"              // as a collation does that is not binary
	FoldsAccents   Fault = "accents are folded"          // likewise
	NoBytes        Fault = "only ASCII is kept"          // other bytes become question marks
	DropsControls  Fault = "control characters are cut"  // from the middle of keys
	DecodesPercent Fault = "percent signs are decoded"   //
	CleansPaths    Fault = "keys are cleaned as paths"   // k/../k is k
	OddAborts      Fault = "odd keys end the connection" // without an answer
	Untrimmed      Fault = "white space counts"          // around the key: only StartUntrimmed can have it
	UUIDsRefused   Fault = "UUIDs are no keys"           //
)

// Manners of other profiles, which are right there and wrong under ietf.
const (
	LongKeys   Fault = "keys of any length"       // work, all of them
	TakesBytes Fault = "keys of any bytes"        // likewise
	QuotedOnly Fault = "quoted keys only"         // ietf-strict
	OpaqueKeys Fault = "keys are opaque"          // visible ASCII up to 255 characters, quotes being part of it: stripe
	KeyInBody  Fault = "the key is in the body"   // member idempotency_key: square
	UUIDsOnly  Fault = "only UUIDs are keys"      // repeatability
	Max64      Fault = "keys up to 64 characters" // adyen
)

// keyLines returns the lines that carry the key, or none if the request has no key.
func (a *API) keyLines(r *http.Request, body []byte) []string {
	if a.has(KeyInBody) {
		return memberOf(body)
	}
	lines := r.Header.Values("Idempotency-Key")
	if len(lines) == 0 {
		return nil
	}
	_, ok := parseKey(lines)
	quoted := strings.HasPrefix(lines[0], `"`)
	switch {
	case len(lines) > 1 && a.has(LinesIgnored),
		len(lines) == 1 && !ok && a.has(BadIgnored),
		!quoted && a.has(BareIgnored),
		quoted && a.has(QuotesIgnored):
		return nil
	}
	return lines
}

// memberOf returns the key in a body, as a list of at most one.
func memberOf(body []byte) []string {
	var in struct {
		Key *string `json:"idempotency_key"`
	}
	if json.Unmarshal(body, &in) != nil || in.Key == nil {
		return nil
	}
	return []string{*in.Key}
}

// keyOf reads a key as the faults have it.
func (a *API) keyOf(lines []string) (string, bool) {
	if a.has(FirstLine) {
		lines = lines[:1]
	}
	text := lines[0]
	switch {
	case a.has(OddAborts) && odd(text):
		panic(http.ErrAbortHandler)
	case a.has(EmptyKeys) && len(lines) == 1 && strings.Trim(text, `" `) == "":
		return "", true
	case a.has(QuotedOnly) && !strings.HasPrefix(text, `"`):
		return "", false
	case a.has(OpaqueKeys):
		return text, len(lines) == 1 && text != "" && len(text) <= 255 && !strings.Contains(text, " ") && !odd(text)
	case a.has(CutKeys) && len(lines) == 1:
		return parseKey([]string{cutAt255(text)})
	case a.has(ParamsRefused) && strings.Contains(text, `";`):
		return "", false
	case a.has(ParamsCount), a.has(QuotedIsOther):
		_, ok := parseKey(lines)
		return text, ok
	case a.has(LongKeys), a.has(TakesBytes), a.has(FoldsAccents), a.has(NoBytes), a.has(DropsControls):
		return a.laxKey(lines)
	}
	key, ok := parseKey(lines)
	return a.changed(key), ok && a.fits(key)
}

// fits reports whether a key has the form that the API wants besides.
func (a *API) fits(key string) bool {
	isUUID := len(key) == 36 && strings.Count(key, "-") == 4
	switch {
	case a.has(ShortKeys):
		return len(key) <= 32
	case a.has(Max64):
		return len(key) <= 64
	case a.has(UUIDsOnly):
		return isUUID
	case a.has(UUIDsRefused):
		return !isUUID
	}
	return true
}

// cutAt255 returns a key cut to 255 characters, with its quotes.
func cutAt255(text string) string {
	key := strings.Trim(text, `"`)
	if len(key) <= 255 {
		return text
	}
	return strings.Replace(text, key, key[:255], 1)
}

// laxKey takes what is between the quotes, whatever it is.
func (a *API) laxKey(lines []string) (string, bool) {
	if len(lines) != 1 {
		return "", false
	}
	key := strings.Trim(lines[0], "\" \t")
	switch {
	case a.has(FoldsAccents):
		key = strings.NewReplacer("é", "e", "è", "e", "e\u0301", "e", "\xe9", "e").Replace(key)
	case a.has(NoBytes):
		key = strings.Map(func(r rune) rune {
			if r > '~' {
				return '?'
			}
			return r
		}, key)
	case a.has(DropsControls):
		key = strings.ReplaceAll(key, "\t", "")
	}
	long := len(key) > 255 && !a.has(LongKeys)
	exact := a.has(LongKeys) || a.has(DropsControls)
	if exact && (strings.ContainsAny(key, `"\,;`) || odd(key)) {
		return key, false
	}
	return key, key != "" && !long
}

// changed returns the key that a fault takes for the given one.
func (a *API) changed(key string) string {
	switch {
	case a.has(FoldsCase):
		return strings.ToLower(key)
	case a.has(DecodesPercent):
		if decoded, err := url.PathUnescape(key); err == nil {
			return decoded
		}
	case a.has(CleansPaths):
		return path.Clean(key)
	}
	return key
}

// odd reports whether a text has anything but visible ASCII and blanks.
func odd(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })
}
