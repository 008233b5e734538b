package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/keys"
)

// decisionTime bounds a decision about several keys.
const decisionTime = 30 * time.Second

// decidePage is the data of the form, of its preview, and of the results.
type decidePage struct {
	Path     string
	Digests  []string
	Records  []keys.Record // one for the form, if there is one key
	About    string        // one letter, if there is one
	Choices  []choice
	Chosen   choice
	Form     decisionForm
	Answer   *keys.HTTPAnswer
	Preview  string // MAC of what was tried
	Results  []result
	Failures int
	Second   bool // another person must confirm it
	MaxName  int
	MaxText  int
}

// Noun is the word for n of what is decided.
func (p decidePage) Noun(n int) string {
	noun := "key"
	if p.Path == lettersPath {
		noun = "dead letter"
	}
	if n == 1 {
		return noun
	}
	return noun + "s"
}

// nav is the entry of the menu that the forms belong to.
func (p decidePage) nav() string {
	if p.Path == lettersPath {
		return "outboxes"
	}
	return "attention"
}

// Can is the number of keys that the decision can be carried out for.
func (p decidePage) Can() int { return len(p.Results) - p.Failures }

// result is what became of the decision about one key.
type result struct {
	Digest, Text string // Digest may be the name of a letter
	Failed       bool
}

// decide shows the form.
func (q *request) decide() error {
	all, err := q.digests(q.r.URL.Query()["digest"])
	if err != nil {
		return err
	}
	data := decidePage{
		Path: q.path(), Digests: all, Choices: q.choices(), MaxName: retrysafe.MaxByBytes, MaxText: retrysafe.MaxReasonBytes,
	}
	switch {
	case len(all) == 1 && data.Path == lettersPath:
		if data.About, err = q.settle(q.r.Context(), keys.Decision{Digest: all[0], DryRun: true}); err != nil {
			return err
		}
	case len(all) == 1:
		if data.Records, err = q.keys.Show(q.r.Context(), keys.Look{Key: all[0]}); err != nil {
			return err
		}
		data.Records = data.Records[:1]
	}
	return q.render(http.StatusOK, "decide", data.title(), data.nav(), data)
}

func (p decidePage) title() string {
	what := "Decide"
	if p.Path == purgePath {
		what = "Purge"
	}
	switch {
	case len(p.Digests) > 1:
		return fmt.Sprintf("%s %d %s", what, len(p.Digests), p.Noun(2))
	case p.Path == lettersPath:
		return what + " dead letter " + p.Digests[0]
	}
	return what + " key " + p.Digests[0][:8]
}

// preview carries the decision out as a dry run, and shows the form that confirms it.
func (q *request) preview() error {
	f, err := q.readForm()
	if err != nil {
		return err
	}
	data, err := q.carryOut(f, true)
	if err != nil {
		return err
	}
	data.Second = q.options.SecondPerson.needs(f.Action)
	data.Preview = q.mac("preview", q.path(), f.text())
	return q.render(http.StatusOK, "preview", "Check: "+data.title(), data.nav(), data)
}

// confirm carries out what the preview has shown, and nothing else, or proposes it to a second person.
func (q *request) confirm() error {
	f, err := q.readForm()
	if err != nil {
		return err
	}
	if !q.isMAC(q.r.PostForm.Get("preview"), q.mac("preview", q.path(), f.text())) {
		return &fault{http.StatusBadRequest, "This decision was not previewed", "Nothing was done. Go back, and look at the preview first."}
	}
	if q.options.SecondPerson.needs(f.Action) {
		return q.propose(f)
	}
	data, err := q.carryOut(f, false)
	if err != nil {
		return err
	}
	return q.render(http.StatusOK, "decided", "Result: "+data.title(), data.nav(), data)
}

// carryOut decides each key. An error of the store ends it; what the store says about one key does not.
func (q *request) carryOut(f decisionForm, dryRun bool) (decidePage, error) {
	data := decidePage{Path: q.path(), Digests: f.Digests, Form: f}
	for _, c := range choices {
		if c.Action == f.Action {
			data.Chosen = c
		}
	}
	var err error
	if data.Answer, err = f.answer(); err != nil {
		return data, err
	}
	ctx, stop := context.WithTimeout(q.r.Context(), decisionTime)
	defer stop()
	for i, digest := range f.Digests {
		done, err := q.one(ctx, keys.Decision{
			Digest: digest, Action: f.Action, Answer: data.Answer, Reason: f.Reason, By: f.By, DryRun: dryRun,
		})
		told := (*keys.Error)(nil)
		switch {
		case errors.As(err, &told):
			data.Results = append(data.Results, result{digest, sentence(told.Message), true})
			data.Failures++
		case err != nil && i == 0:
			return data, err
		case err != nil: // the rest is not tried: what was done must be shown
			shown := q.faultOf(err)
			for _, rest := range f.Digests[i:] {
				data.Results = append(data.Results, result{rest, shown.title + ". Look at it before you try again.", true})
				data.Failures++
			}
			return data, nil
		default:
			data.Results = append(data.Results, result{Digest: digest, Text: done})
		}
	}
	return data, nil
}

// one decides one key, and says what was done, or would be.
func (q *request) one(ctx context.Context, d keys.Decision) (string, error) {
	done, err := q.act(ctx, d)
	if d.DryRun {
		return done, err
	}
	outcome := "carried out"
	if err != nil {
		outcome = "refused"
		if told := (*keys.Error)(nil); !errors.As(err, &told) {
			outcome = "failed; look at it"
		}
	}
	about := []any{"key", d.Digest}
	if isLetter(d.Digest) { // no trail keeps the reason
		about = []any{"letter", d.Digest, "reason", d.Reason}
	}
	about = append(about, "who", q.name(), "by", d.By, "action", string(d.Action), "outcome", outcome)
	q.options.Log.Info("dashboard: decision", about...)
	q.decisions.add(entry{At: time.Now(), By: d.By, Action: d.Action, Digest: d.Digest, Reason: d.Reason, Outcome: outcome, Here: true})
	return done, err
}

func (q *request) act(ctx context.Context, d keys.Decision) (string, error) {
	if q.proposed != nil {
		if err := q.isChanged(ctx, *q.proposed, d.Digest); err != nil {
			return "", err
		}
		d.Fence = q.proposed.Pins[d.Digest].Fence
	}
	if isLetter(d.Digest) {
		return q.settle(ctx, d)
	}
	if d.Action == retrysafe.ResolvePurge {
		purged, err := q.keys.Purge(ctx, d)
		switch {
		case err != nil:
			return "", err
		case purged.Bytes == 0:
			return "Nothing is stored any more.", nil
		}
		return fmt.Sprintf("%d bytes of answer and steps.", purged.Bytes), nil
	}
	if d.Action == retrysafe.ResolveReopen {
		r, err := q.keys.Reopen(ctx, d)
		switch {
		case err != nil:
			return "", err
		case d.DryRun:
			return fmt.Sprintf("Ended %s ago. Its next retry would run the operation again.", span(r.Ended)), nil
		}
		return "Reopened: the next retry of the same request runs the operation again.", nil
	}
	r, err := q.keys.Resolve(ctx, d)
	switch {
	case err != nil:
		return "", err
	case d.DryRun && r.State == keys.InFlight:
		return fmt.Sprintf("Attempt %d is working on it. The release ends the attempt: what its service has not committed by "+
			"then, it cannot commit any more.", r.Attempt), nil
	case d.DryRun && r.State == keys.Uncommitted:
		return "Nothing has to be decided: the service has committed nothing, and the next retry runs the operation.", nil
	case d.DryRun:
		return fmt.Sprintf("Abandoned after attempt %d, first claimed %s ago.", r.Attempt, span(r.Age)), nil
	case d.Action == retrysafe.ResolveRelease:
		return "Released: the next retry of the same request runs the operation.", nil
	}
	return fmt.Sprintf("Ended. The key stays taken for %s.", span(r.KeyLeft)), nil
}
