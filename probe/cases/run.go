package cases

import (
	"cmp"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/wire"
)

// run is one case being run over HTTP: probe.Run, and requests that are made by the recipe.
type run struct {
	*probe.Run
	*session
	secret []probe.Saved // of the step of a set-up that is being sent
}

// Send sends a request and waits for the answer. The label names it in the timeline. While a rate limit (429) refuses
// it, the same request is sent again, when the target asks for it or with growing pauses, for as long as Limits.Wait.
func (t *run) Send(label string, r wire.Request) wire.Answer {
	a := t.sendOnce(label, r)
	until := time.Now().Add(t.recipe.Limits.Wait)
	for pause := 100 * time.Millisecond; rateLimited(t, a); pause *= 2 {
		wait := cmp.Or(secondsToWait(a), pause)
		if t.limited.Load() || time.Now().Add(wait).After(until) {
			t.limited.Store(true)
			return t.noteLimit(a)
		}
		if !t.Pause(wait) {
			return a
		}
		a = t.sendOnce(label+", after a 429", r)
	}
	t.limited.Store(false)
	return a
}

// First sends the first request of a case. It ends the case unless that succeeds: there would be nothing to compare
// with.
func (t *run) First(label string, r wire.Request) wire.Answer {
	a := t.Send(label, r)
	switch {
	case a.Status == 0:
		t.Brokenf("the target did not answer the first request: %v", a.Err)
	case !a.OK():
		t.Brokenf("the target refused the first request with %d: %s", a.Status, wire.Shorten(a.Body, 200))
	}
	return a
}

// Retried sends a request, which must succeed, and sends it again.
func (t *run) Retried(r wire.Request) (first, again wire.Answer) {
	first = t.First("first", r)
	return first, t.Send("retry", r)
}

// New returns the recipe's request for a new intent of caller A, with a new key.
func (t *run) New() wire.Request { return t.NewFrom(t.recipe.Request) }

// NewFrom returns a variant for a new intent of caller A, with a new key.
func (t *run) NewFrom(template probe.Template) wire.Request {
	return t.Keyed(t.From(template, t.intents.Next()), newKey(t))
}

// newKey returns a new key that every API with the profile takes: a UUID.
func newKey(t *run) string {
	if t.rules.UUID7 {
		return probe.NewUUID7()
	}
	return probe.NewUUID()
}

// Fresh returns the recipe's request for a new intent of caller A, without a key.
func (t *run) Fresh() wire.Request { return t.From(t.recipe.Request, t.intents.Next()) }

// From returns a template, filled in for an intent of caller A, without a key. It first sends the steps of the
// template's set-up that have not been sent for the intent.
func (t *run) From(template probe.Template, v probe.Intent) wire.Request {
	return t.FromAs(t.recipe.A, template, v)
}

// FromAs is From for the caller of a credential.
func (t *run) FromAs(caller []wire.HeaderLine, template probe.Template, v probe.Intent) wire.Request {
	values := t.setUp(template, v, caller)
	return t.filled(template, v, values).As(t.recipe.A).As(caller)
}

// Keyed returns the request with a key where the API has it: in a header, quoted or not, in the body or in the query.
func (t *run) Keyed(r wire.Request, key string) wire.Request {
	switch {
	case t.keyInBody() && isForm(r):
		name := strings.NewReplacer("~1", "/", "~0", "~").Replace(strings.TrimPrefix(t.keyPointer(), "/"))
		return stamped(t, r).WithBody([]byte(probe.WithParameter(string(r.Body), name, key)))
	case t.keyInBody():
		return stamped(t, r).WithBody(probe.WithPointer(r.Body, t.keyPointer(), key))
	case t.recipe.KeyQuery != "":
		path, query, _ := strings.Cut(r.Path, "?")
		return stamped(t, r).WithPath(path + "?" + probe.WithParameter(query, t.recipe.KeyQuery, key))
	}
	return t.RawKeyed(r, t.inForm(key))
}

// isForm reports whether a request says that its body is a form.
func isForm(r wire.Request) bool {
	return strings.HasPrefix(strings.ToLower(r.Get("Content-Type")), "application/x-www-form-urlencoded")
}

// RawKeyed returns the request with exactly that value in the key's header.
func (t *run) RawKeyed(r wire.Request, value string) wire.Request {
	return stamped(t, r).Set(t.keyHeader(), value)
}

// WantEffects notes a FAIL unless the case has had exactly that many effects so far.
func (t *run) WantEffects(want int, answers ...wire.Answer) bool {
	return t.Run.WantEffects(want, t.shown(answers)...)
}

// WantCount is WantEffects where the answers do not show each effect: it judges only if effects are counted.
func (t *run) WantCount(want int, answers ...wire.Answer) bool {
	return !t.Counts() || t.WantEffects(want, answers...)
}

// shown returns what the answers show of effects. Only successes show one: an error may name what exists already.
func (t *run) shown(answers []wire.Answer) []probe.Shown {
	all := make([]probe.Shown, len(answers))
	for i, a := range answers {
		all[i].SentAt = a.SentAt
		if a.OK() {
			all[i].Identity = t.id(a)
		}
	}
	return all
}

// id returns what identifies the created thing in an answer, or "" if the answer does not show it.
func (t *run) id(a wire.Answer) string {
	if t.recipe.Identity.Header != "" {
		return a.Header.Get(t.recipe.Identity.Header)
	}
	id, err := a.JSON(t.recipe.Identity.Pointer)
	if err != nil {
		return ""
	}
	return id
}

// sendOnce sends a request and does not retry after a rate limit.
func (t *run) sendOnce(label string, r wire.Request) wire.Answer {
	return t.record(label, r, t.client.Do(t.Context(), r))
}

// record puts an exchange with the target into the timeline.
func (t *run) record(label string, r wire.Request, a wire.Answer) wire.Answer {
	return t.recordAt(t.client.Host(), label, r, a)
}

// recordAt puts an exchange with any host into the timeline, and numbers the answer as the timeline does.
func (t *run) recordAt(host, label string, r wire.Request, a wire.Answer) wire.Answer {
	t.hide(a)
	e := probe.Exchange{
		Connection: a.Connection, Label: label, SentAt: a.SentAt, EndedAt: a.EndedAt, Status: a.Status,
		Request: t.shownRequest(r, host), Answer: t.shownAnswer(a),
	}
	if a.Err != nil {
		e.Error = a.Err.Error()
	}
	a.No = t.Record(e)
	return a
}

// noteLimit notes that a rate limit got in the way. A FAIL of the case becomes BROKEN then.
func (t *run) noteLimit(a wire.Answer) wire.Answer {
	if rateLimited(t, a) {
		t.Obstructed("a rate limit (429) got in the way (" + itoa(a.No) + ") and did not end within " +
			t.recipe.Limits.Wait.String() + ", so the findings are not judged")
	}
	return a
}

// start sends a request except for the last bytes of its body. It ends the case if there is no connection.
func (t *run) start(r wire.Request, keep int) *wire.Conn {
	return t.connected(t.client.Start(t.Context(), r, keep))
}

// open returns a connection for several requests. It ends the case if there is none.
func (t *run) open() *wire.Conn { return t.connected(t.client.Open(t.Context())) }

// connected returns the connection, or ends the case if there is none.
func (t *run) connected(c *wire.Conn, err error) *wire.Conn {
	if err != nil {
		t.Brokenf("no connection to the target: %v", err)
	}
	return c
}

// keyHeader returns the name of the header that carries keys.
func (t *run) keyHeader() string { return cmp.Or(t.recipe.KeyHeader, t.rules.Header) }

// keyPointer returns the JSON pointer to the key in the body; "": it is not there.
func (t *run) keyPointer() string {
	switch {
	case t.recipe.KeyBody != "":
		return t.recipe.KeyBody
	case t.rules.Member != "" && t.recipe.KeyHeader == "" && t.recipe.KeyQuery == "":
		return "/" + t.rules.Member
	}
	return ""
}

// keyInBody reports whether keys are a member of the body.
func (t *run) keyInBody() bool { return t.keyPointer() != "" }

// inForm returns a key as the profile writes it in the header.
func (t *run) inForm(key string) string {
	if t.rules.Quoted {
		return quoted(key)
	}
	return key
}
