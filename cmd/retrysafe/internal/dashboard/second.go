package dashboard

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/keys"
)

// proposals returns those that wait, and tells of those that have expired.
func (q *request) proposals() ([]proposal, error) {
	open, expired, err := q.options.SecondPerson.open()
	if err != nil {
		return nil, q.noProposals(err)
	}
	for _, p := range expired {
		q.tell(p, "expired", "")
	}
	return open, nil
}

// noProposals is the page while the file of proposals fails.
func (q *request) noProposals(err error) error {
	if known := (*fault)(nil); errors.As(err, &known) {
		return err
	}
	q.options.Log.Error("dashboard: the file of proposals failed", "error", err)
	return &fault{
		http.StatusServiceUnavailable, "The file of proposals cannot be read or written",
		"Nothing was done. Decisions that need a second person wait until it can. The log says why.",
	}
}

// proposalsOf returns the proposals about keys, by their digests. A file that cannot be read hides no key.
func (q *request) proposalsOf() map[string]proposal {
	of := map[string]proposal{}
	open, err := q.proposals()
	if err != nil {
		return of
	}
	for _, p := range open {
		for digest := range p.Pins {
			of[digest] = p
		}
	}
	return of
}

// tell writes a step of a proposal into the log, and into the page of decisions.
func (q *request) tell(p proposal, step, reason string) {
	who := "nobody"
	if step != "expired" {
		who = q.name()
	}
	for digest := range p.Pins {
		q.options.Log.Info("dashboard: proposal", "step", step, "proposal", p.ID, "key", digest, "action", string(p.Form.Action),
			"proposed by", p.Form.By, "who", who, "reason", reason)
		q.decisions.add(entry{
			At: time.Now(), By: who, Action: p.Form.Action, Digest: digest, Reason: reason, Outcome: step, Here: true,
		})
	}
}

// propose saves a decision for a second person, with the keys as they are now. Keys that it cannot be carried out for are
// left out, as the preview has said.
func (q *request) propose(f decisionForm) error {
	p := proposal{
		ID: rand.Text(), Path: q.path(), ByID: q.who.id, At: time.Now().UTC().Truncate(time.Second), Form: f, Pins: map[string]pin{},
	}
	for _, digest := range f.Digests {
		found, err := q.keys.Show(q.r.Context(), keys.Look{Key: digest})
		if told := (*keys.Error)(nil); err != nil && !errors.As(err, &told) {
			return err
		}
		if err == nil {
			p.Pins[digest] = pinOf(found[0])
		}
	}
	data, err := q.carryOut(f, true)
	if err != nil {
		return err
	}
	p.Form.Digests = nil
	for _, r := range data.Results {
		if r.Failed {
			delete(p.Pins, r.Digest)
		} else if _, ok := p.Pins[r.Digest]; ok {
			p.Form.Digests = append(p.Form.Digests, r.Digest)
		}
	}
	if len(p.Form.Digests) == 0 {
		return &fault{http.StatusConflict, "This cannot be done", "It cannot be done for any of the keys any more. Nothing was proposed."}
	}
	if err := q.options.SecondPerson.add(p); err != nil {
		return q.noProposals(err)
	}
	q.tell(p, "proposed", f.Reason)
	http.Redirect(q.w, q.r, "/proposals/"+p.ID, http.StatusSeeOther)
	return nil
}

func pinOf(r keys.Record) pin { return pin{r.Fence, r.State} }

// isChanged returns an error if a key is not any more as it was when a decision about it was proposed.
func (q *request) isChanged(ctx context.Context, p proposal, digest string) error {
	found, err := q.keys.Show(ctx, keys.Look{Key: digest})
	if err != nil {
		return err
	}
	if now := pinOf(found[0]); now != p.Pins[digest] {
		return &keys.Error{Code: keys.CodeChanged, Message: "the proposal has lapsed: the key has changed since. It was " +
			p.Pins[digest].State + ", and is " + now.State + " after another attempt or decision"}
	}
	return nil
}

// proposalPage is the data of the page of a proposal.
type proposalPage struct {
	decidePage
	ID        string
	At, Until time.Time
	Mine      bool // the visitor has proposed it
	May       bool // the visitor's role allows it
}

// findProposal returns a proposal, and whether the visitor is its author. A person with a token and an account at the OpenID
// provider is the same one if the names are.
func (q *request) findProposal() (p proposal, mine bool, err error) {
	open, err := q.proposals()
	if err != nil {
		return p, false, err
	}
	for _, p := range open {
		if p.ID == q.r.PathValue("proposal") {
			return p, p.ByID == q.who.id || strings.EqualFold(p.Form.By, q.who.Name), nil
		}
	}
	return p, false, &fault{
		http.StatusNotFound, "There is no such proposal", "It was confirmed, declined or withdrawn, or has expired. The page Decisions " +
			"says which, if this dashboard has not restarted since.",
	}
}

func (q *request) mayDecide(p proposal) bool { return p.Path != purgePath || q.who.Role >= Purge }

// proposal shows a proposal as its preview did: with a dry run, and with what becomes of it now.
func (q *request) proposal() error {
	p, mine, err := q.findProposal()
	if err != nil {
		return err
	}
	data := proposalPage{ID: p.ID, At: p.At, Until: p.Until(), Mine: mine, May: q.mayDecide(p)}
	if data.decidePage, err = q.carryOutProposal(p, p.Form, true); err != nil {
		return err
	}
	data.Preview = q.mac("proposal", p.text())
	data.MaxText = retrysafe.MaxReasonBytes
	return q.render(http.StatusOK, "proposal", "Proposal", "attention", data)
}

// carryOutProposal carries a proposal out, or tries it, for the keys that are as they were.
func (q *request) carryOutProposal(p proposal, f decisionForm, dryRun bool) (decidePage, error) {
	tried := *q
	tried.proposed = &p
	data, err := tried.carryOut(f, dryRun)
	data.Path, data.Second = p.Path, true
	return data, err
}

// confirmProposal carries a proposal out.
func (q *request) confirmProposal() error {
	p, mine, err := q.findProposal()
	if err != nil {
		return err
	}
	switch {
	case mine:
		return &fault{
			http.StatusForbidden, "Another person must confirm this", "You have proposed it yourself. Nothing was done.",
		}
	case !q.mayDecide(p):
		return q.notAllowed(Purge)
	case !q.isMAC(q.r.PostForm.Get("preview"), q.mac("proposal", p.text())):
		return &fault{http.StatusBadRequest, "This is not what was proposed", "Nothing was done. Go back, reload the page and look at it again."}
	}
	if err := q.take(p); err != nil {
		return err
	}
	f := p.Form
	f.By = both(p.Form.By, q.who.Name)
	data, err := q.carryOutProposal(p, f, false)
	if err != nil { // for the first key: nothing was done
		if again := q.options.SecondPerson.add(p); again != nil {
			q.options.Log.Error("dashboard: a proposal is lost, because the store failed, and then the file", "proposal", p.ID, "error", again)
		}
		return err
	}
	step := "confirmed"
	if data.Can() == 0 {
		step = "lapsed"
	}
	q.tell(p, step, p.Form.Reason)
	return q.render(http.StatusOK, "decided", "Result: "+data.title(), data.nav(), data)
}

// both names two persons in one trail.
func both(proposer, second string) string {
	const half = (retrysafe.MaxByBytes - len(", confirmed by ")) / 2
	if len(proposer)+len(second) > 2*half {
		proposer, second = cutName(proposer, half), cutName(second, half)
	}
	return proposer + ", confirmed by " + second
}

func cutName(name string, most int) string {
	if len(name) > most {
		name = strings.ToValidUTF8(name[:most], "")
	}
	return name
}

// take removes a proposal before anything is done with it.
func (q *request) take(p proposal) error {
	taken, err := q.options.SecondPerson.take(p.ID)
	switch {
	case err != nil:
		return q.noProposals(err)
	case !taken:
		return &fault{http.StatusConflict, "Another person was faster", "The proposal was confirmed, declined or withdrawn. Nothing was done."}
	}
	return nil
}

// declineProposal ends a proposal of another person, with a reason.
func (q *request) declineProposal() error {
	p, mine, err := q.findProposal()
	if err != nil {
		return err
	}
	reason := strings.TrimSpace(strings.ReplaceAll(q.r.PostForm.Get("reason"), "\r\n", "\n"))
	switch {
	case mine:
		return &fault{http.StatusForbidden, "You have proposed this yourself", "Withdraw it instead. Nothing was done."}
	case !q.mayDecide(p):
		return q.notAllowed(Purge)
	case reason == "" || len(reason) > retrysafe.MaxReasonBytes:
		return &fault{http.StatusBadRequest, "The reason is missing or too long", "Go back and write why, for the person who has proposed it. Nothing was done."}
	}
	if err := q.take(p); err != nil {
		return err
	}
	q.tell(p, "declined", cli.Clean(reason))
	http.Redirect(q.w, q.r, "/attention", http.StatusSeeOther)
	return nil
}

// withdrawProposal ends a proposal of the visitor.
func (q *request) withdrawProposal() error {
	p, mine, err := q.findProposal()
	if err != nil {
		return err
	}
	if !mine {
		return &fault{http.StatusForbidden, "Another person has proposed this", "Decline it instead, with a reason. Nothing was done."}
	}
	if err := q.take(p); err != nil {
		return err
	}
	q.tell(p, "withdrawn", "")
	http.Redirect(q.w, q.r, "/attention", http.StatusSeeOther)
	return nil
}

// waitingProposal is a proposal in a list, and on the page of a key.
type waitingProposal struct {
	ID, By, Words, Reason string
	N                     int
	Left                  float64
}

func waitingOf(p proposal) *waitingProposal {
	return &waitingProposal{p.ID, p.Form.By, actionWords(p.Form.Action), p.Form.Reason, len(p.Pins), time.Until(p.Until()).Seconds()}
}
