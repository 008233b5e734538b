package httpsignals

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
)

// ConflictingID is the member in which GoCardless names what the first request created.
const ConflictingID = "conflicting_resource_id"

// messages are the texts of an error body that may name a situation.
type messages struct {
	found             []string
	conflict, created bool // GoCardless: the key was used before, and the body names what that request created
}

// collect reads the members that hold such texts in problems and in the error bodies of the profiles.
func (m *messages) collect(v any, depth int) {
	if depth > 4 {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			switch name {
			case "code", "type", "__type", "reason", "issue", "errorCode", "error_codes":
				m.add(value)
			case "title", "detail", "message", "error":
				if text, ok := value.(string); ok && isOutstanding(text) {
					m.add("request-in-flight")
				}
			case ConflictingID:
				m.created = true
			}
			m.collect(value, depth+1)
		}
	case []any:
		for _, value := range v {
			m.collect(value, depth+1)
		}
	}
}

// isOutstanding reports whether a text is that of the IETF draft's own example for an attempt in flight, which services
// copy.
func isOutstanding(text string) bool {
	const outstanding = "a request is outstanding for this idempotency"
	return len(text) >= len(outstanding) && strings.EqualFold(text[:len(outstanding)], outstanding)
}

func (m *messages) add(value any) {
	switch value := value.(type) {
	case string:
		m.found = append(m.found, value)
		m.conflict = m.conflict || value == "idempotent_creation_conflict"
	case json.Number:
		m.found = append(m.found, value.String())
	case []any:
		for _, one := range value {
			if text, ok := one.(string); ok {
				m.found = append(m.found, text)
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

// byMessage returns what an error code means: a slug of ours in any profile's spelling, or a provider's own.
func byMessage(code string, status int, header Set) Set {
	if i := strings.LastIndexByte(code, '#'); i >= 0 { // the type of a problem, the shape of an Amazon error
		code = code[i+1:]
	}
	code = strings.TrimSuffix(code, "Exception")
	for slug, means := range slugMeanings {
		if code == slug || code == UpperSnake(slug) || code == LowerSnake(slug) || code == Camel(slug) {
			return means
		}
	}
	switch code {
	case "idempotency_key_in_use", "PREVIOUS_REQUEST_IN_PROGRESS", "IdempotentRequestInProgress", "idempotency_in_flight",
		"IDEMPOTENCY_IN_FLIGHT":
		return InFlight
	case "idempotency_error", "IDEMPOTENCY_KEY_REUSED", "IdempotentParameterMismatch", "PAYPAL_REQUEST_ID_PREVIOUSLY_USED",
		"idempotency_conflict", "IDEMPOTENCY_CONFLICT":
		return Reused
	case "IDEMPOTENCY_EXPIRED":
		return Expired
	case "idempotency_key_required":
		return Refused
	case "704": // Adyen: already processed, or in progress
		if status == http.StatusConflict || header&Retry != 0 {
			return InFlight
		}
		return Reused
	}
	return 0
}

// slugMeanings is what our own refusals mean to a client. Those that are not here are told by their status.
var slugMeanings = map[string]Set{
	"request-in-flight": InFlight,
	"key-reused":        Reused,
	"key-expired":       Expired,
	"key-closed":        Replayed, // a final answer, also to attempts before
	"outcome-unknown":   Unknown,
	"key-missing":       Refused,
	"key-malformed":     Refused,
	"body-too-large":    Refused,
	"not-supported":     Refused,
	"body-unreadable":   Retry | Nothing,
	"body-timeout":      Retry | Nothing,
	"early-data":        Retry | Nothing,
	"key-quota":         Retry | Nothing,
	"store-unavailable": Retry | Nothing,
}

// byLink returns what a refusal of ours means by the link to its explanation, which it has in every profile: some
// profiles have no word for it. The slugs of package proxy count only here, because any API may call itself
// overloaded.
func byLink(r *http.Response) Set {
	for _, link := range r.Header["Link"] {
		target, parameters, _ := strings.Cut(link, ">")
		_, slug, ok := strings.Cut(target, "#")
		if !ok || r.StatusCode < 400 || !strings.Contains(parameters, `rel="describedby"`) {
			continue
		}
		switch slug {
		case "upstream-unreachable", "upstream-fenced", "overloaded", "auth-unavailable":
			return Retry | Nothing
		case "upstream-failed", "upstream-timeout":
			return Stop
		}
		return slugMeanings[slug]
	}
	return 0
}
