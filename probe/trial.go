package probe

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Trial is one case being played. Its methods send requests, count effects, and note findings; a case without a finding has passed.
type Trial struct {
	Rules  Rules
	Recipe *Recipe

	ctx      context.Context
	run      *run
	base     int64 // effects before
	mu       sync.Mutex
	exchange []Exchange
	findings []Finding
	na       string
	// limitedAt is the last exchange in which a rate limit was in the way; 0: none was.
	limitedAt int
	// ranAgain: more effects were seen than there should have been.
	ranAgain bool
}

// Exchange is a request and what came back, as the timeline of a case shows it.
type Exchange struct {
	No int `json:"no"`
	// Connection is the number of the connection in the run; 0: there was none.
	Connection int       `json:"connection,omitempty"`
	Label      string    `json:"label"`
	SentAt     time.Time `json:"sent_at"`
	EndedAt    time.Time `json:"ended_at"`
	Request    string    `json:"request"`        // head and the beginning of the body; credentials are left out
	Status     int       `json:"status"`         // 0: no answer
	Code       string    `json:"code,omitempty"` // the status as another protocol than HTTP has it
	Answer     string    `json:"answer"`
	Error      string    `json:"error,omitempty"`
}

// Finding is something that a case has to say.
type Finding struct {
	Verdict Verdict `json:"verdict"`
	Text    string  `json:"text"`
}

// Failf notes what is wrong. The case goes on, so that everything is said at once.
func (t *Trial) Failf(format string, args ...any) { t.note(Fail, format, args...) }

// Warnf notes what could be better.
func (t *Trial) Warnf(format string, args ...any) { t.note(Warn, format, args...) }

// Infof records what was seen where nothing is right or wrong.
func (t *Trial) Infof(format string, args ...any) { t.note(Info, format, args...) }

// NAf says that the case cannot be judged.
func (t *Trial) NAf(format string, args ...any) { t.na = fmt.Sprintf(format, args...) }

// Brokenf says that the target did not let the case be played.
func (t *Trial) Brokenf(format string, args ...any) { t.note(Broken, format, args...) }

func (t *Trial) note(v Verdict, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.findings = append(t.findings, Finding{v, t.mask(fmt.Sprintf(format, args...))})
}

// Clean reports whether nothing wrong has been noted so far.
func (t *Trial) Clean() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !slices.ContainsFunc(t.findings, func(f Finding) bool { return f.Verdict == Fail || f.Verdict == Broken })
}

// Intent is one that nobody has had before.
func (t *Trial) Intent() Intent { return t.run.intents.next() }

// Fresh is the recipe's request for a new intent of caller A, without a key.
func (t *Trial) Fresh() Request { return t.For(t.Intent()) }

// For is the recipe's request for an intent of caller A, without a key.
func (t *Trial) For(v Intent) Request { return t.From(t.Recipe.Request, v) }

// From is a variant for an intent of caller A, without a key.
func (t *Trial) From(template Template, v Intent) Request {
	return template.build(t.Recipe.Target, v, t.Recipe.A)
}

// NewKey is a key that nobody has had before.
func (t *Trial) NewKey() string { return newUUID() }

// Keyed carries the key as the profile has it: in a header, quoted or not, or in the body.
func (t *Trial) Keyed(r Request, key string) Request {
	if t.Rules.Member != "" && t.Recipe.KeyHeader == "" {
		return r.WithBody(withMember(r.Body, t.Rules.Member, key))
	}
	if t.Rules.Quoted {
		key = quoted(key)
	}
	r = r.Set(t.keyHeader(), key)
	if t.Rules.FirstSent != "" && r.Get(t.Rules.FirstSent) == "" {
		r = r.Set(t.Rules.FirstSent, time.Now().UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT"))
	}
	return r
}

// RawKeyed carries a key header with exactly that value.
func (t *Trial) RawKeyed(r Request, value string) Request {
	return t.Keyed(r, "x").Set(t.keyHeader(), value)
}

func (t *Trial) keyHeader() string {
	if t.Recipe.KeyHeader != "" {
		return t.Recipe.KeyHeader
	}
	return t.Rules.Header
}

// quoted is a structured-field string (RFC 9651 §3.3.3).
func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// withMember is a JSON object with one member more, at its beginning. One of that name that stands there is replaced.
func withMember(body []byte, name, value string) []byte {
	text := strings.TrimSpace(string(body))
	v, _ := json.Marshal(value)
	rest, ok := strings.CutPrefix(text, "{")
	if !ok {
		return body
	}
	rest = withoutFirst(rest, name)
	comma := ","
	if strings.TrimSpace(rest) == "}" {
		comma = ""
	}
	return []byte(fmt.Sprintf("{%q:%s%s%s", name, v, comma, rest))
}

// withoutFirst is what is behind the { of a JSON object, without its first member if that has this name and is a string.
func withoutFirst(rest, name string) string {
	value, had := strings.CutPrefix(rest, strconv.Quote(name)+":")
	d := json.NewDecoder(strings.NewReader(value))
	if first, err := d.Token(); !had || err != nil {
		return rest
	} else if _, isText := first.(string); !isText {
		return rest
	}
	return strings.TrimPrefix(strings.TrimLeft(value[d.InputOffset():], " \t\r\n"), ",")
}

// record puts an exchange into the timeline.
func (t *Trial) record(label string, r Request, a Answer) Answer {
	t.mu.Lock()
	defer t.mu.Unlock()
	a.No = len(t.exchange) + 1
	e := Exchange{
		No: a.No, Connection: a.Connection, Label: label, SentAt: a.SentAt, EndedAt: a.EndedAt, Request: t.shown(r), Status: a.Status, Code: a.Code,
		Answer: t.run.shownAnswer(t.masked(a)),
	}
	if a.Err != nil {
		e.Error = a.Err.Error()
	}
	t.exchange = append(t.exchange, e)
	return a
}

// shown is a request for people, without credentials.
func (t *Trial) shown(r Request) string {
	whose := t.whose(r)
	for _, secret := range slices.Concat(t.Recipe.A, t.Recipe.AAgain, t.Recipe.B, t.Recipe.Revoked) {
		if r.Get(secret.Name) != "" {
			r = r.Set(secret.Name, "(credential "+whose+")")
		}
	}
	return t.run.shownRequest(r)
}

// masked is an answer without credentials: some targets say again what they were sent.
func (t *Trial) masked(a Answer) Answer {
	a.Body = []byte(t.mask(string(a.plain())))
	header := http.Header{}
	for name, values := range a.Header {
		for _, v := range values {
			header.Add(name, t.mask(v))
		}
	}
	a.Header = header
	return a
}

// leastSecret is how long a value is that is looked for wherever it may be: a shorter one is a part of other things.
const leastSecret = 6

// mask takes credentials out of a text, without the word before them, such as Bearer, too.
func (t *Trial) mask(text string) string {
	for _, secret := range slices.Concat(t.Recipe.A, t.Recipe.AAgain, t.Recipe.B, t.Recipe.Revoked) {
		value := secret.Value[strings.LastIndexByte(secret.Value, ' ')+1:]
		if len(value) >= leastSecret {
			text = strings.ReplaceAll(text, value, "(credential)")
		}
	}
	return text
}

// whose is the credential that a request has.
func (t *Trial) whose(r Request) string {
	for name, lines := range map[string][]HeaderLine{"A": t.Recipe.A, "A again": t.Recipe.AAgain, "B": t.Recipe.B, "revoked": t.Recipe.Revoked} {
		if len(lines) > 0 && !slices.ContainsFunc(lines, func(h HeaderLine) bool { return r.Get(h.Name) != h.Value }) {
			return name
		}
	}
	return "other"
}

func shownAnswer(a Answer) string {
	if a.Status == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d\n", a.Status)
	_ = a.Header.Write(&b)
	return b.String() + "\n" + trimmed(a.plain(), 400)
}

// Works sends the first request of a case: it must succeed, or there is nothing to look at.
func (t *Trial) Works(label string, r Request) (Answer, bool) {
	a := t.Send(label, r)
	switch {
	case a.Status == 0:
		t.Brokenf("the target did not answer the first request: %v", a.Err)
	case !a.OK():
		t.Brokenf("the target refused the first request with %d: %s", a.Status, trimmed(a.Body, 200))
	}
	return a, a.OK()
}
