package dashboard

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/keys"
)

// maxDecisions is how many keys are decided at once.
const maxDecisions = 100

// choice is a decision in words of its consequence.
type choice struct {
	Path        string // of its form
	Action      retrysafe.ResolveAction
	Short       string
	Title       string
	Consequence string
}

// Paths of forms. Decisions about keys that have ended have a form of their own, because they need another role.
const (
	decidePath  = "/decide"
	purgePath   = "/purge"
	lettersPath = "/letters"
)

// choices are all decisions.
var choices = []choice{
	{
		decidePath, retrysafe.ResolveComplete, "it happened", "The operation happened.",
		"Every retry gets the answer below, and the operation does not run again.",
	},
	{
		decidePath, retrysafe.ResolveFail, "it did not happen, and must not", "It did not happen, or was undone.",
		"Every retry is told so, and that it needs a new key. The operation does not run under this key.",
	},
	{
		decidePath, retrysafe.ResolveRelease, "it did not happen: run it again", "It did not happen: run it again.",
		"The next retry of the same request runs the operation. If it did happen after all, it happens twice.",
	},
	{
		purgePath, retrysafe.ResolvePurge, "delete the stored answer", "Delete the stored answer.",
		"The key stays taken: a retry is told that the operation has ended and that its answer is no longer kept. Nothing runs " +
			"again. What was deleted cannot be brought back.",
	},
	{
		purgePath, retrysafe.ResolveReopen, "run it again", "Run the operation again.",
		"Its stored answer and steps are deleted, and the next retry of the same request runs all of it. What the first run did, " +
			"such as a charge, is not undone: if it stands, it happens twice.",
	},
	{
		lettersPath, redeliver, "deliver again", "Deliver the message again.",
		"Relays send it under the same key, with a full number of tries. A receiver that has forgotten the key has the effect a " +
			"second time: compare the message's age with how long the receiver keeps its keys.",
	},
	{
		lettersPath, drop, "drop the message", "Drop the message.",
		"It is deleted and never sent, and later messages of its aggregate go on. It cannot be brought back.",
	},
}

// decisionForm is what a person has written.
type decisionForm struct {
	Digests []string
	Action  retrysafe.ResolveAction
	Status  string
	Header  string // lines
	Body    string
	Reason  string
	By      string
}

// path is where the form belongs.
func (q *request) path() string {
	for _, path := range []string{purgePath, lettersPath} {
		if strings.HasPrefix(q.r.URL.Path, path) {
			return path
		}
	}
	return decidePath
}

// choices returns what can be chosen on this path.
func (q *request) choices() []choice {
	return slices.DeleteFunc(slices.Clone(choices), func(c choice) bool { return c.Path != q.path() })
}

// digests reads the keys, or the letters, of a form or a link.
func (q *request) digests(values []string) ([]string, error) {
	var all []string
	for _, text := range values {
		if q.path() == lettersPath {
			if _, _, err := parseLetter(text); err != nil {
				return nil, err
			}
		} else {
			d, err := keys.ParseDigest(text)
			if err != nil {
				return nil, err
			}
			text = d.String()
		}
		if !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	switch {
	case len(all) == 0:
		return nil, &fault{http.StatusBadRequest, "Nothing is selected", "Go back and select at least one."}
	case len(all) > maxDecisions:
		return nil, &fault{
			http.StatusBadRequest, "Too many are selected",
			fmt.Sprintf("At most %d can be decided at once. Go back and select fewer.", maxDecisions),
		}
	}
	return all, nil
}

// readForm reads and checks the form. Browsers send line breaks as CR LF, which users have not typed.
func (q *request) readForm() (f decisionForm, err error) {
	of := q.r.PostForm
	text := func(name string) string { return strings.ReplaceAll(of.Get(name), "\r\n", "\n") }
	f = decisionForm{
		Action: retrysafe.ResolveAction(of.Get("action")), Status: strings.TrimSpace(text("status")), Header: text("header"),
		Body: text("body"), Reason: strings.TrimSpace(text("reason")), By: strings.TrimSpace(text("by")),
	}
	if q.options.hasLogin() {
		f.By = q.who.Name // whatever the form says
	}
	if f.Digests, err = q.digests(of["digest"]); err != nil {
		return f, err
	}
	isChoice := func(c choice) bool { return c.Action == f.Action }
	missing := func(what, do string) error { return &fault{http.StatusBadRequest, what, do + " Nothing was done."} }
	switch {
	case !slices.ContainsFunc(q.choices(), isChoice):
		return f, missing("No decision was chosen", "Go back and choose one.")
	case f.Reason == "":
		return f, missing("The reason is missing", "Go back and write how you found out what happened. It is kept.")
	case len(f.Reason) > retrysafe.MaxReasonBytes:
		return f, missing("The reason is too long", fmt.Sprintf("It has %d bytes, the limit is %d.", len(f.Reason), retrysafe.MaxReasonBytes))
	case f.By == "":
		return f, missing("Your name is missing", "Go back and write it. It is kept with the decision.")
	case len(f.By) > retrysafe.MaxByBytes:
		return f, missing("The name is too long", fmt.Sprintf("It has %d bytes, the limit is %d.", len(f.By), retrysafe.MaxByBytes))
	}
	_, err = f.answer()
	return f, err
}

// answer returns the answer that every retry gets; nil unless the operation happened.
func (f decisionForm) answer() (*keys.HTTPAnswer, error) {
	if f.Action != retrysafe.ResolveComplete {
		return nil, nil
	}
	wrong := func(what, do string) error { return &fault{http.StatusBadRequest, what, do + " Nothing was done."} }
	status, err := strconv.Atoi(f.Status)
	if err != nil || status < 200 || status > 599 {
		return nil, wrong("The answer needs a status", "Write the one that the client would have got, 200 to 599, such as 201.")
	}
	a := &keys.HTTPAnswer{Status: status, Header: http.Header{}, Body: []byte(f.Body)}
	for line := range strings.Lines(f.Header) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok || name == "" {
			return nil, wrong("A header field cannot be read", "Write a name and a value in each line: Location: /charges/17.")
		}
		a.Header.Add(name, strings.TrimSpace(value))
	}
	switch {
	case f.Body == "" || a.Header.Get("Content-Type") != "":
	case json.Valid(a.Body):
		a.Header.Set("Content-Type", "application/json")
	default:
		return nil, wrong("The body is not JSON", "Say what it is among the header fields: Content-Type: text/plain.")
	}
	return a, nil
}

// text is the form as one text, for its MAC.
func (f decisionForm) text() string {
	text, err := json.Marshal(f)
	if err != nil {
		panic(err) // strings
	}
	return string(text)
}
