package cases

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/wire"
)

// setUp sends the steps of a template that have not been sent for the intent yet, and returns the values that all of
// them have saved. It ends the case if a step fails.
func (t *run) setUp(template probe.Template, v probe.Intent, caller []wire.HeaderLine) map[string]string {
	values := map[string]string{}
	for i := range template.Setup {
		step := &template.Setup[i]
		if _, sent := v.Saved[step]; !sent {
			t.secret = inHeaders(template, step.Save)
			v.Saved[step] = t.prepare(step, v, values, caller)
			t.secret = nil
		}
		maps.Copy(values, v.Saved[step])
	}
	return values
}

// prepare sends one step and returns what it saves.
func (t *run) prepare(step *probe.Step, v probe.Intent, values map[string]string,
	caller []wire.HeaderLine,
) map[string]string {
	r := t.filled(step.Template, v, values).As(t.recipe.A).As(caller)
	if step.Keyed {
		r = t.Keyed(r, newKey(t))
	}
	label := "set-up: " + step.Name
	a := t.Send(label, r)
	for pause := 100 * time.Millisecond; mayPass(a) && canRepeat(step) && pause < time.Second; pause *= 2 {
		if !t.Pause(pause) {
			break
		}
		a = t.Send(label+", again", r)
	}
	switch {
	case a.Status == 0:
		t.Brokenf("the step %s of setup (%d) got no answer: %v", step.Name, a.No, a.Err)
	case !a.OK():
		t.Brokenf("the step %s of setup (%d) got %d: %s", step.Name, a.No, a.Status, wire.Shorten(a.Plain(), 200))
	}
	saved := map[string]string{}
	for _, s := range step.Save {
		value, where := valueOf(a, s)
		if value == "" || strings.ContainsFunc(value, func(c rune) bool { return c < ' ' || c == 0x7f }) {
			t.Brokenf("the step %s of setup (%d) got %d without a value of one line for %s at %s: %s", step.Name, a.No,
				a.Status, s.Name, where, wire.Shorten(a.Plain(), 200))
		}
		saved[s.Name] = value
	}
	return saved
}

// valueOf returns the value that is to be saved of an answer, and where it was looked for.
func valueOf(a wire.Answer, s probe.Saved) (value, where string) {
	switch {
	case s.Pointer != "":
		value, _ = a.JSON(s.Pointer)
		return value, s.Pointer
	case s.Header != "":
		return a.Header.Get(s.Header), "header:" + s.Header
	}
	return itoa(a.Status), "status"
}

// mayPass reports whether the failure of a step may be over when it is sent again.
func mayPass(a wire.Answer) bool {
	return a.Status == 0 || a.Status == http.StatusRequestTimeout || a.ServerError()
}

// canRepeat reports whether a step that may have been carried out can be sent again.
func canRepeat(step *probe.Step) bool {
	return step.Keyed || slices.Contains([]string{http.MethodGet, http.MethodPut, http.MethodDelete}, step.Method)
}

// filled returns a template filled in for an intent, with saved values, without a caller and without a key. Each
// request closes its connection unless a case wants it open, so that nothing on a connection outlives a request.
func (t *run) filled(template probe.Template, v probe.Intent, values map[string]string) wire.Request {
	fill := func(text string, escape func(string) string) string {
		return probe.FillSaved(v.Fill(text), values, escape)
	}
	r := wire.Request{
		Method: template.Method, Body: []byte(fill(template.Body, bodyEscape(template))), Close: true,
		Path: strings.TrimSuffix(t.recipe.Target.EscapedPath(), "/") + fill(template.Path, urlEscape),
	}
	if r.Method == "" {
		r.Method = http.MethodPost
	}
	for _, h := range template.Header {
		r = r.With(h.Name, fill(h.Value, func(value string) string { return value }))
	}
	return r
}

// bodyEscape returns how a saved value is written in the body of a template.
func bodyEscape(template probe.Template) func(string) string {
	switch {
	case template.IsJSON():
		return func(value string) string {
			text, _ := json.Marshal(value) // of a string cannot fail
			return string(text[1 : len(text)-1])
		}
	case isForm(wire.Request{Header: template.Header}):
		return urlEscape
	}
	return func(value string) string { return value }
}

// urlEscape writes a value for a path, a query or a form.
func urlEscape(value string) string { return strings.ReplaceAll(url.QueryEscape(value), "+", "%20") }

// inHeaders returns the values that stand in a header of the template or of its set-up. Such values are often tokens,
// so reports do not show them.
func inHeaders(template probe.Template, all []probe.Saved) (secret []probe.Saved) {
	lines := slices.Clone(template.Header)
	for _, step := range template.Setup {
		lines = append(lines, step.Header...)
	}
	for _, s := range all {
		if slices.ContainsFunc(lines, func(h wire.HeaderLine) bool { return probe.MentionsValue(h.Value, s.Name) }) {
			secret = append(secret, s)
		}
	}
	return secret
}

// hide keeps the secret values of an answer out of the report, before the answer itself is put there.
func (t *run) hide(a wire.Answer) {
	for _, s := range t.secret {
		value, _ := valueOf(a, s)
		if len(value) >= leastHidden {
			t.secretsMu.Lock()
			t.secrets = append(t.secrets, value)
			t.secretsMu.Unlock()
		}
	}
}

// leastHidden is the length from which a value is searched in texts: a shorter one may be a part of other words.
const leastHidden = 6

// withoutSaved takes the saved values of this case that stand in headers out of a text.
func (s *session) withoutSaved(text string) string {
	s.secretsMu.Lock()
	defer s.secretsMu.Unlock()
	for _, value := range s.secrets {
		text = strings.ReplaceAll(text, value, "(saved)")
	}
	return text
}

// forgetSaved begins a new case.
func (s *session) forgetSaved() {
	s.secretsMu.Lock()
	defer s.secretsMu.Unlock()
	s.secrets = nil
}

// alike returns a function that makes requests with the same values for several keys: the same bytes without a set-up,
// and with one a request for each key that has what its own set-up has created.
func (t *run) alike() func() wire.Request {
	return t.alikeFrom(t.recipe.Request, t.intents.Next())
}

// alikeFrom is alike for a template and an intent.
func (t *run) alikeFrom(template probe.Template, v probe.Intent) func() wire.Request {
	first := stamped(t, t.From(template, v))
	used := false
	return func() wire.Request {
		if len(template.Setup) == 0 || !used {
			used = true
			return first
		}
		r := t.From(template, v.Apart())
		if t.rules.FirstSent != "" {
			r = r.Set(t.rules.FirstSent, first.Get(t.rules.FirstSent))
		}
		return r
	}
}

// keyPlace says where keys are if that is not a header: "the member /key of the body", "the parameter key of the query".
func (s *session) keyPlace() string {
	switch {
	case s.recipe == nil:
	case s.recipe.KeyBody != "":
		return fmt.Sprintf("at %s in the body", s.recipe.KeyBody)
	case s.recipe.KeyQuery != "":
		return fmt.Sprintf("in the query parameter %s", s.recipe.KeyQuery)
	}
	return ""
}

// headerCases are about a line of a header: its syntax, its name, and how often it is there.
var headerCases = []string{
	"B07", "B10", "K01", "K02", "K03", "K04", "K05", "K12", "K13", "K15", "H07", "H15", "T06",
}

// withoutHeaderCases takes the cases out that say nothing of a key in another place than a header.
func (s *session) withoutHeaderCases(all []probe.Case) []probe.Case {
	place := s.keyPlace()
	for i, c := range all {
		if place != "" && slices.Contains(headerCases, c.ID) {
			all[i].Off = "the case is about the header of the key, but this API has keys " + place
		}
	}
	return all
}
