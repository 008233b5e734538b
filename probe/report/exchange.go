package report

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/probe"
)

// told is an exchange in the words of a report. All text in it is clean.
type told struct {
	probe.Exchange
	What   string // "POST /things"
	Key    string // "": it has none; "(empty)"
	Caller string // "A", "B" …; "": the timeline has only one
	Result string // "201", "201 replay", "no answer"
	Took   time.Duration
}

// tell reads what a report shows of an exchange. The key is where the profile has it.
func tell(e probe.Exchange, seen probe.Observed) told {
	t := told{Exchange: e, Took: e.EndedAt.Sub(e.SentAt), Result: "no answer"}
	head, body, _ := strings.Cut(strings.ReplaceAll(e.Request, "\r\n", "\n"), "\n\n")
	first, fields, _ := strings.Cut(head, "\n")
	t.What = line(strings.TrimSuffix(first, " HTTP/1.1"))
	t.Key = line(keyOf(t.What, fields, body, seen))
	if _, rest, ok := strings.Cut(fields, "(credential "); ok {
		t.Caller, _, _ = strings.Cut(line(rest), ")")
	}
	if e.Status != 0 {
		if t.Result = fmt.Sprint(e.Status); e.Code != "" {
			t.Result = line(e.Code)
		}
		if isMarked(e.Answer, seen.Marker) {
			t.Result += " replay"
		}
	}
	t.Label, t.Error = line(e.Label), line(e.Error)
	t.Request, t.Answer = lines(e.Request), lines(e.Answer)
	return t
}

// exchangesOf returns the exchanges of an outcome in the form that all reports share.
func exchangesOf(o probe.Outcome, seen probe.Observed) []told {
	all := make([]told, len(o.Timeline))
	for i, e := range o.Timeline {
		all[i] = tell(e, seen)
	}
	if !slices.ContainsFunc(all, func(t told) bool { return t.Caller != all[0].Caller }) {
		for i := range all {
			all[i].Caller = ""
		}
	}
	return all
}

// isMarked reports whether an answer has the marker of a replay.
func isMarked(answer, marker string) bool {
	head, _, _ := strings.Cut(answer, "\n\n")
	for field := range strings.Lines(head) {
		name, value, _ := strings.Cut(field, ":")
		if marker != "" && strings.EqualFold(name, marker) {
			return strings.TrimSpace(value) == "true"
		}
	}
	return false
}

// keyOf finds the key in the request line, in the header lines or in the body.
func keyOf(what, fields, body string, seen probe.Observed) string {
	switch {
	case seen.Query != "":
		_, query, _ := strings.Cut(what, "?")
		return fieldOf(query, seen.Query)
	case seen.Pointer != "":
		return memberOf(body, seen.Pointer[strings.LastIndexByte(seen.Pointer, '/')+1:])
	case seen.Header == "" && !strings.HasPrefix(strings.TrimSpace(body), "{"):
		return fieldOf(body, seen.Member)
	case seen.Header == "":
		return memberOf(body, seen.Member)
	}
	var keys []string
	for field := range strings.SplitSeq(fields, "\n") {
		if name, value, ok := strings.Cut(field, ":"); ok && strings.EqualFold(name, seen.Header) {
			keys = append(keys, orEmpty(strings.TrimSpace(value)))
		}
	}
	return strings.Join(keys, ", ")
}

// orEmpty returns the key, or a word for an empty one.
func orEmpty(key string) string {
	if key == "" {
		return "(empty)"
	}
	return key
}

// fieldOf finds a parameter of a query or a form, which may have been cut off behind it.
func fieldOf(form, name string) string {
	for part := range strings.SplitSeq(form, "&") {
		before, after, ok := strings.Cut(part, "=")
		if before, _ = url.QueryUnescape(before); ok && before == name {
			key, _ := url.QueryUnescape(after)
			return orEmpty(key)
		}
	}
	return ""
}

// memberOf finds a member of a JSON object, which may have been cut off behind it.
func memberOf(body, name string) string {
	var value string
	quoted, _ := json.Marshal(name)
	_, rest, ok := strings.Cut(body, string(quoted)+":")
	if !ok || json.NewDecoder(strings.NewReader(rest)).Decode(&value) != nil {
		return ""
	}
	return orEmpty(value)
}

// shortKey returns the two ends of a key: enough to see whether two keys are the same, and less than a secret.
func shortKey(key string) string {
	key = orEmpty(strings.Trim(key, `"`))
	letters := []rune(key)
	if len(letters) <= 12 {
		return key
	}
	return string(letters[:6]) + "…" + string(letters[len(letters)-4:])
}

// shortWhat returns what was called, without the package of a gRPC service. Methods differ at the end of their names,
// which a narrow column cuts off.
func (t told) shortWhat() string {
	service, method, ok := strings.Cut(t.What, "/")
	if !ok || strings.Contains(t.What, " ") { // "POST /things"
		return t.What
	}
	return service[strings.LastIndexByte(service, '.')+1:] + "/" + method
}

// requestBody returns the beginning of the request's body in one line.
func (t told) requestBody() string {
	_, body, _ := strings.Cut(t.Request, "\n\n")
	return line(body)
}

// answerBody returns the beginning of the answer's body in one line.
func (t told) answerBody() string {
	_, body, _ := strings.Cut(t.Answer, "\n\n")
	return line(body)
}

// inWords returns a duration with the fewest digits that are still useful.
func inWords(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d >= time.Second:
		return fmt.Sprintf("%.3g s", d.Seconds())
	case d >= 10*time.Millisecond:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.2g ms", max(0, d.Seconds())*1000)
}

// keyInWords returns a key in short form, or a word for none.
func keyInWords(key string) string {
	if key == "" {
		return "no key"
	}
	return "key " + shortKey(key)
}
