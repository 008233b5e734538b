package httpsafe

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/internal/httpsignals"
)

// RefusalBody is how the body of a refusal looks, as data. The zero RefusalBody means problem details: see
// [ProblemJSON].
//
//	httpsafe.RefusalBody{
//		Body: `{"error": {"code": "{code}", "message": "{detail}", "wait": "{retry_after}"}}`,
//		Words: map[string]map[string]string{
//			"code": {"key-reused": "idempotency_error", "503": "try_later", "": "{slug_snake}"},
//		},
//	}
//
// A placeholder stands for something about the [Problem]:
//
//   - {slug}, as request-in-flight; {slug_snake}, as request_in_flight; {slug_upper}, as REQUEST_IN_FLIGHT;
//     {slug_camel}, as RequestInFlight.
//   - {title}, {detail}, {executed}, {type}: texts. {type} is the link to the explanation of the slug.
//   - {status}: a number. {retryable} and {new_key_required}: true or false.
//   - {retry_after}, in whole seconds, and {retry_after_ms}: numbers, if the client should wait.
//   - {instance} and {first_seen}: texts, if the problem has them.
//   - Members that only some situations have: {conflicting_resource_id}, {header}, {reason}, {max_length},
//     {max_bytes}, {mismatch}, {expired_at}, {state} and {next}.
//   - Each name in Words.
//
// A string that is one placeholder and nothing else takes the value with its own type: "{status}" becomes 409, not
// "409". In a longer string the value is put in as text, and one that the problem does not have is empty text. A member
// or an element that would be such a value alone is left out, and so is an object or an array of which nothing remains
// by that, except the outermost. A brace is written twice: "{{" and "}}". Names of members are written as they are,
// without placeholders.
type RefusalBody struct {
	// ContentType of the body. Default "application/json".
	ContentType string
	// Body is a JSON object or array, in whose strings placeholders stand. Its members are sent in the order in which
	// they are written here, without the white space between them. Problem details are sent instead of a Body that
	// Options.Validate refuses.
	Body string
	// Words has, for each name, the word in each case. The first case that is there counts, in this order:
	//
	//   - the slug of the problem;
	//   - "retryable", if a retry with the same key may get past the problem;
	//   - its status, such as "503";
	//   - the class of its status, "4xx" or "5xx";
	//   - "", for all others.
	//
	// If no case is there, or its word is empty, the name has no value. A word may hold placeholders, as in
	// "{slug_camel}Exception", but no names of Words. It is text also if it consists of digits; "{name:number}" in Body
	// writes it as a number. Slugs of your own need a status in Profile.Statuses. Copies of a Profile share the map, and
	// so does its Middleware.
	Words map[string]map[string]string
	// MaxRetryAfter is the most that {retry_after} and {retry_after_ms} say, for formats that have a limit. The
	// Retry-After header does not obey it. Default: no limit.
	MaxRetryAfter time.Duration
}

// placeholders are what a placeholder stands for. nil: the problem has no such value.
var placeholders = map[string]func(p *Problem) any{
	"slug":             func(p *Problem) any { return p.Slug },
	"slug_snake":       func(p *Problem) any { return httpsignals.LowerSnake(string(p.Slug)) },
	"slug_upper":       func(p *Problem) any { return httpsignals.UpperSnake(string(p.Slug)) },
	"slug_camel":       func(p *Problem) any { return httpsignals.Camel(string(p.Slug)) },
	"title":            func(p *Problem) any { return p.Title },
	"detail":           func(p *Problem) any { return p.Detail },
	"type":             func(p *Problem) any { return p.Type },
	"status":           func(p *Problem) any { return p.Status },
	"executed":         func(p *Problem) any { return p.Executed },
	"retryable":        func(p *Problem) any { return p.Retryable },
	"new_key_required": func(p *Problem) any { return p.NewKeyRequired },
	"retry_after":      func(p *Problem) any { return valueIf(p.RetryAfter > 0, wholeSeconds(p.RetryAfter)) },
	"retry_after_ms":   func(p *Problem) any { return valueIf(p.RetryAfter > 0, p.RetryAfter.Milliseconds()) },
	"instance":         func(p *Problem) any { return valueIf(p.Instance != "", p.Instance) },
	"first_seen":       func(p *Problem) any { return valueIf(!p.FirstSeen.IsZero(), firstSeen(p)) },
}

// fieldNames are the members that only some situations have: what Problem.Fields may hold.
var fieldNames = []string{
	conflictingID, "header", "reason", "max_length", "max_bytes", "mismatch", "expired_at", "state", "next",
}

func valueIf(there bool, value any) any {
	if there {
		return value
	}
	return nil
}

// refusal is a RefusalBody that was read. It is not changed any more, so it is safe for concurrent use.
type refusal struct {
	contentType   string
	body          jsonTemplate
	words         map[string]map[string][]part
	maxRetryAfter time.Duration
}

// render is a Profile.RenderFunc.
func (r *refusal) render(p Problem) (contentType string, body []byte) {
	if r.maxRetryAfter > 0 {
		p.RetryAfter = min(p.RetryAfter, r.maxRetryAfter)
	}
	body, ok := r.body.append(nil, r, &p)
	if !ok { // nothing remains of the whole document
		body = []byte{r.body.kind, closing(r.body.kind)}
	}
	return r.contentType, append(body, '\n')
}

// jsonTemplate is a JSON value with placeholders in it.
type jsonTemplate struct {
	kind    byte // '{', '[' or '"'; 0 for a number, true, false and null
	literal []byte
	text    []part
	members []member
}

// member is a member of an object, or an element of an array, which has no name.
type member struct {
	name  []byte // as JSON, with the colon
	value jsonTemplate
}

// part is a piece of a text: a placeholder if it has a name.
type part struct {
	text, name string
	number     bool // the word is a number
}

// closing returns the bracket that ends what an opening one begins. ASCII has one character between the two.
func closing(open byte) byte { return open + 2 }

// append writes the value. It reports whether there is one: otherwise the caller leaves out what was appended.
func (t *jsonTemplate) append(b []byte, r *refusal, p *Problem) (_ []byte, ok bool) {
	switch t.kind {
	case 0:
		return append(b, t.literal...), true
	case '"':
		if !isLone(t.text) {
			return append(b, encoded(r.textOf(t.text, p))...), true
		}
		value, ok := r.valueOf(t.text[0], p)
		return append(b, encoded(value)...), ok
	}
	b = append(b, t.kind)
	empty := len(b)
	for _, m := range t.members {
		before := len(b)
		if before > empty {
			b = append(b, ',')
		}
		if b, ok = m.value.append(append(b, m.name...), r, p); !ok {
			b = b[:before]
		}
	}
	return append(b, closing(t.kind)), len(b) > empty || len(t.members) == 0
}

// isLone reports whether a text is one placeholder and nothing else.
func isLone(text []part) bool { return len(text) == 1 && text[0].name != "" }

// textOf puts the values into a text.
func (r *refusal) textOf(text []part, p *Problem) string {
	var b strings.Builder
	for _, piece := range text {
		b.WriteString(piece.text)
		if value, ok := r.valueOf(piece, p); ok {
			raw, s := encoded(value), ""
			if json.Unmarshal(raw, &s) != nil { // it is no text, and null is an empty one
				s = string(raw)
			}
			b.WriteString(s)
		}
	}
	return b.String()
}

// valueOf returns what a placeholder stands for, if the problem has such a value.
func (r *refusal) valueOf(placeholder part, p *Problem) (value any, ok bool) {
	if words, ok := r.words[placeholder.name]; ok {
		word := wordFor(words, p)
		ok := len(word) > 0
		if placeholder.number {
			return json.Number(r.textOf(word, p)), ok
		}
		return r.textOf(word, p), ok
	}
	if of, ok := placeholders[placeholder.name]; ok {
		value = of(p)
		return value, value != nil
	}
	for _, f := range p.Fields {
		if f.Name == placeholder.name {
			value, ok = f.Value, true
		}
	}
	return value, ok
}

// wordFor returns the word of the first case that is there. The order matters for what clients do: one that reads that
// its request was invalid corrects it and sends it with a new key, which must not happen after a server error.
func wordFor(words map[string][]part, p *Problem) []part {
	status, retryable := strconv.Itoa(p.Status), string(p.Slug)
	if p.Retryable {
		retryable = "retryable"
	}
	for _, name := range []string{string(p.Slug), retryable, status, status[:1] + "xx"} {
		if word, ok := words[name]; ok && name != "" {
			return word
		}
	}
	return words[""]
}
