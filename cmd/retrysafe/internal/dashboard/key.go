package dashboard

import (
	"maps"
	"net/http"
	"slices"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/keys"
)

// keyPage is the data of the page of one key.
type keyPage struct {
	Digest   string
	Records  []recordPart     // the newest first
	Shown    bool             // the answers were asked for
	Proposed *waitingProposal // nil: none
}

// recordPart is one record of the key. Records before the newest are kept for audits only.
type recordPart struct {
	keys.Record
	Moments []moment
	Windows []windowBar
	Links   []shownLink
	Body    string
	Cut     bool // Body is only the beginning
	Header  []field
}

type field struct{ Name, Value string }

// CanDecide reports whether there is something to decide.
func (p recordPart) CanDecide() bool {
	return p.State == keys.Abandoned || p.State == keys.Uncommitted || p.State == keys.InFlight && p.CompletedUpstream
}

// HasEnded reports whether there may be an answer to delete, or an operation to run again.
func (p recordPart) HasEnded() bool { return p.Answer != nil }

// IsKept reports whether there is an answer to show.
func (p recordPart) IsKept() bool { return p.Answer != nil && !p.Answer.Closed && !p.Answer.Omitted }

func (q *request) key() error { return q.showKey(false) }

// answer shows the stored answers of a key. The log gets a line with the name of the reader, before one is shown.
func (q *request) answer() error { return q.showKey(true) }

func (q *request) showKey(withAnswer bool) error {
	digest, err := keys.ParseDigest(q.r.PathValue("digest"))
	if err != nil {
		return err
	}
	if withAnswer {
		q.options.Log.Info("dashboard: answer shown", "who", q.name(), "key", digest.String())
	}
	found, err := q.keys.Show(q.r.Context(), keys.Look{Key: digest.String(), Answer: withAnswer})
	if err != nil {
		return err
	}
	data := keyPage{Digest: digest.String(), Shown: withAnswer}
	if p, ok := q.proposalsOf()[data.Digest]; ok {
		data.Proposed = waitingOf(p)
	}
	for _, r := range found {
		q.decisions.addTrail(r)
		part := recordPart{Record: r, Moments: momentsOf(r), Windows: windowsOf(r), Links: q.linksOf(r)}
		if a := r.Answer; a != nil && withAnswer {
			part.Body, part.Cut = cli.BodyText(a.Body), len(a.Body) > cli.ShownBody
			for _, name := range slices.Sorted(maps.Keys(a.Header)) {
				for _, value := range a.Header[name] {
					part.Header = append(part.Header, field{name, value})
				}
			}
		}
		data.Records = append(data.Records, part)
	}
	return q.render(http.StatusOK, "key", "Key "+digest.String()[:8], "find", data)
}

// name is who is logged in, for the log.
func (q *request) name() string {
	if !q.options.hasLogin() {
		return "a user of this machine (no login)"
	}
	return q.who.Name
}
