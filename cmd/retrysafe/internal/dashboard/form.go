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
	Action      retrysafe.ResolveAction
	Short       string
	Title       string
	Consequence string
}

// choices are all decisions. Those about keys that have ended have a form of their own, because they need another role.
var choices = []choice{
	{
		retrysafe.ResolveComplete, "it happened", "The operation happened.",
		"Every retry gets the answer below, and the operation does not run again.",
	},
	{
		retrysafe.ResolveFail, "it did not happen, and must not", "It did not happen, or was undone.",
		"Every retry is told so, and that it needs a new key. The operation does not run under this key.",
	},
	{
		retrysafe.ResolveRelease, "it did not happen: run it again", "It did not happen: run it again.",
		"The next retry of the same request runs the operation. If it did happen after all, it happens twice.",
	},
	{
		retrysafe.ResolvePurge, "delete the stored answer", "Delete the stored answer.",
		"The key stays taken: a retry is told that the operation has ended and that its answer is no longer kept. Nothing runs " +
			"again. What was deleted cannot be brought back.",
	},
	{
		retrysafe.ResolveReopen, "run it again", "Run the operation again.",
		"Its stored answer and steps are deleted, and the next retry of the same request runs all of it. What the first run did, " +
			"such as a charge, is not undone: if it stands, it happens twice.",
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

// path is where the form belongs: the routes of decisions and of purges need different roles.
func (q *request) path() string {
	if strings.HasPrefix(q.r.URL.Path, "/purge") {
		return "/purge"
	}
	return "/decide"
}

// choices returns what can be chosen on this path.
func (q *request) choices() []choice {
	purges := q.path() == "/purge"
	return slices.DeleteFunc(slices.Clone(choices), func(c choice) bool {
		return (c.Action == retrysafe.ResolvePurge || c.Action == retrysafe.ResolveReopen) != purges
	})
}

// digests reads the keys of a form or a link.
func digests(values []string) ([]string, error) {
	var all []string
	for _, text := range values {
		d, err := keys.ParseDigest(text)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(all, d.String()) {
			all = append(all, d.String())
		}
	}
	switch {
	case len(all) == 0:
		return nil, &fault{http.StatusBadRequest, "No key is selected", "Go back and select at least one."}
	case len(all) > maxDecisions:
		return nil, &fault{
			http.StatusBadRequest, "Too many keys are selected",
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
	if q.options.Users != "" {
		f.By = q.who.Name // whatever the form says
	}
	if f.Digests, err = digests(of["digest"]); err != nil {
		return f, err
	}
	isChoice := func(c choice) bool { return c.Action == f.Action }
	missing := func(what, do string) error { return &fault{http.StatusBadRequest, what, do + " Nothing was done."} }
	switch {
	case !slices.ContainsFunc(q.choices(), isChoice):
		return f, missing("No decision was chosen", "Go back and choose one.")
	case f.Reason == "":
		return f, missing("The reason is missing", "Go back and write how you found out what happened. It is kept with the key.")
	case len(f.Reason) > retrysafe.MaxReasonBytes:
		return f, missing("The reason is too long", fmt.Sprintf("It has %d bytes, the limit is %d.", len(f.Reason), retrysafe.MaxReasonBytes))
	case f.By == "":
		return f, missing("Your name is missing", "Go back and write it. It is kept with the key.")
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
