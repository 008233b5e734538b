package httpsafe

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
)

// bodyWords are the words in a body that may name a situation.
type bodyWords struct {
	found             []string
	conflict, created bool // GoCardless: there is a duplicate, and this is what the first request created
}

// collect looks at the members that hold such words: of problems, and in the error bodies of the profiles.
func (w *bodyWords) collect(v any, depth int) {
	if depth > 4 {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			switch name {
			case "code", "type", "__type", "reason", "issue", "errorCode", "error_codes":
				w.add(value)
			case conflictingID:
				w.created = true
			}
			w.collect(value, depth+1)
		}
	case []any:
		for _, value := range v {
			w.collect(value, depth+1)
		}
	}
}

func (w *bodyWords) add(value any) {
	switch value := value.(type) {
	case string:
		w.found = append(w.found, value)
		w.conflict = w.conflict || value == "idempotent_creation_conflict"
	case json.Number:
		w.found = append(w.found, value.String())
	case []any:
		for _, one := range value {
			if text, ok := one.(string); ok {
				w.found = append(w.found, text)
			}
		}
	}
}

// xmlCode returns the code of an error in XML.
func xmlCode(body []byte) (string, bool) {
	if !bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("<")) {
		return "", false
	}
	_, after, _ := bytes.Cut(body, []byte("<Code>"))
	code, _, ok := bytes.Cut(after, []byte("</Code>"))
	return string(code), ok
}

// saidByWord returns what a word means: a slug of ours in any profile's spelling, or a provider's own.
func saidByWord(word string, status int, header said) said {
	if i := strings.LastIndexByte(word, '#'); i >= 0 { // the type of a problem, the shape of an Amazon error
		word = word[i+1:]
	}
	word = strings.TrimSuffix(word, "Exception")
	for slug, means := range slugMeanings() {
		if word == string(slug) || word == upperSnake(slug) || word == lowerSnake(slug) || word == camel(slug) {
			return means
		}
	}
	switch word {
	case "idempotency_key_in_use", "PREVIOUS_REQUEST_IN_PROGRESS", "IdempotentRequestInProgress":
		return saidInFlight
	case "idempotency_error", "IDEMPOTENCY_KEY_REUSED", "IdempotentParameterMismatch", "PAYPAL_REQUEST_ID_PREVIOUSLY_USED":
		return saidReused
	case "704": // Adyen: already processed, or in progress
		if status == http.StatusConflict || header&saidRetry != 0 {
			return saidInFlight
		}
		return saidReused
	}
	return 0
}

// slugMeanings says what our own refusals mean to a client. Those that are not here are said by their status.
func slugMeanings() map[Slug]said {
	return map[Slug]said{
		RequestInFlight:  saidInFlight,
		KeyReused:        saidReused,
		KeyExpired:       saidExpired,
		KeyClosed:        saidReplayed, // a final answer, also to attempts before
		OutcomeUnknown:   saidUnknown,
		KeyMissing:       saidRefused,
		KeyMalformed:     saidRefused,
		BodyTooLarge:     saidRefused,
		NotSupported:     saidRefused,
		BodyUnreadable:   saidRetry | saidNothing,
		BodyTimeout:      saidRetry | saidNothing,
		EarlyData:        saidRetry | saidNothing,
		KeyQuota:         saidRetry | saidNothing,
		StoreUnavailable: saidRetry | saidNothing,
	}
}

// saidByLink returns what a refusal of ours means by the link to its explanation, which it has in every profile: some profiles
// have no word for it. The slugs of package proxy count only here, because any API may call itself overloaded.
func saidByLink(r *http.Response) said {
	for _, link := range r.Header["Link"] {
		target, parameters, _ := strings.Cut(link, ">")
		_, slug, ok := strings.Cut(target, "#")
		if !ok || r.StatusCode < 400 || !strings.Contains(parameters, `rel="describedby"`) {
			continue
		}
		switch slug {
		case "upstream-unreachable", "overloaded", "auth-unavailable":
			return saidRetry | saidNothing
		case "upstream-failed", "upstream-timeout":
			return saidStop
		}
		return slugMeanings()[Slug(slug)]
	}
	return 0
}
