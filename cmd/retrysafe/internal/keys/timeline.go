package keys

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
)

// moment is one line of a timeline.
type moment struct {
	at     time.Time
	text   string
	coming bool
}

// timeline is what a record knows of when something happened, or will happen, in order of time. The claim comes first
// and now has a place of its own, even if the clocks of the processes that made decisions disagree.
func timeline(r Record, now time.Time) []moment {
	ago := func(s float64) time.Time { return now.Add(-time.Duration(s * float64(time.Second))) }
	past := sightingMoments(r.Sightings, ago)
	if end := howItEnded(r); end != "" {
		past = append(past, moment{at: ago(r.Ended), text: end})
	}
	for _, e := range r.Trail {
		past = append(past, moment{at: e.At, text: describeEntry(e)})
	}
	slices.SortStableFunc(past, func(a, b moment) int { return a.at.Compare(b.at) })
	all := append([]moment{{at: ago(r.Age), text: "claimed: attempt 1 began"}}, past...)
	all = append(all, moment{at: now, text: cmp.Or(leaseText(r), "now")})
	coming := []moment{}
	in := func(left float64, text string) {
		if left > 0 {
			coming = append(coming, moment{ago(-left), text, true})
		}
	}
	in(r.LeaseLeft, "the lease runs out, unless it is extended")
	if r.Answer != nil {
		if !r.Answer.Omitted {
			in(r.ReplayLeft, "the answer stops being replayed")
		}
		in(r.AuditLeft, "the record is no longer kept for audits")
	}
	if r.State != InFlight {
		in(r.KeyLeft, "the key becomes free: the same request then runs as if it were new")
	}
	slices.SortStableFunc(coming, func(a, b moment) int { return a.at.Compare(b.at) })
	return append(all, coming...)
}

// howItEnded says how the work ended; "" if it has not.
func howItEnded(r Record) string {
	switch {
	case r.State == Released:
		return fmt.Sprintf("released: attempt %d gave the key up", r.Attempt)
	case r.Answer == nil:
		return ""
	case r.Answer.Closed:
		return r.State + ": closed by an operator"
	}
	return fmt.Sprintf("%s: attempt %d completed the key with code %d", r.State, r.Attempt, r.Answer.Code)
}

// leaseText says what is known of the lease of a pending record; "" for others.
func leaseText(r Record) string {
	switch r.State {
	case InFlight:
		return fmt.Sprintf("now: the lease of attempt %d runs", r.Attempt)
	case Abandoned, Uncommitted:
		return fmt.Sprintf("now: the lease of attempt %d has run out; the record does not say when", r.Attempt)
	}
	return ""
}

// seenText says what requests of a kind got.
var seenText = map[string]string{
	"replayed":  "replayed: a retry got the saved answer, or how the work ended",
	"waiting":   "waited: a retry waited for another attempt",
	"in_flight": "refused: another attempt had the key",
	"mismatch":  "refused: the request differed from the one that first used the key",
	"refused":   "refused: the outcome was unknown, or the answer could no longer be read",
}

// SeenText says what became of requests that found the record, by Sighting.Kind.
func SeenText(kind string) string { return cmp.Or(seenText[kind], cli.Clean(kind)) }

// sightingMoments are the first and the last request of each kind.
func sightingMoments(all []Sighting, ago func(float64) time.Time) (moments []moment) {
	for _, s := range all {
		text, last := SeenText(s.Kind), ""
		if s.Code != 0 {
			last = fmt.Sprintf(", code %d", s.Code)
		}
		if s.Count > 1 {
			moments = append(moments, moment{at: ago(s.First), text: fmt.Sprintf("%s (the first of %d)", text, s.Count)})
			last += fmt.Sprintf(" (the last of %d)", s.Count)
		}
		moments = append(moments, moment{at: ago(s.Last), text: text + last})
	}
	return moments
}

// describeEntry is a decision, without its time.
func describeEntry(e retrysafe.AuditEntry) string {
	text := fmt.Sprintf("decision: %s by %s: %s", e.Action, cli.Clean(e.By), cli.Clean(e.Reason))
	if e.Unfinished {
		text += " (not carried out: the process or the store failed)"
	}
	return text
}

// unrecorded says which attempts' beginnings the record does not have. A decision claims the key as an attempt, too.
func unrecorded(r Record) string {
	others := r.Attempt - 1
	for i, e := range r.Trail {
		isClaim := e.Action != retrysafe.ResolvePurge && e.Attempt > 1
		if isClaim && !slices.ContainsFunc(r.Trail[:i], func(o retrysafe.AuditEntry) bool { return o.Attempt == e.Attempt }) {
			others--
		}
	}
	switch {
	case r.Attempt == 1:
		return ""
	case others <= 0:
		return ", decisions included"
	case others == 1 && r.Attempt == 2:
		return "; when attempt 2 began is not recorded"
	}
	return fmt.Sprintf("; when %d of them began is not recorded", others)
}

// printTimeline prints a line for each moment: the local time, how long ago or in how long, and what.
func printTimeline(w io.Writer, all []moment, now time.Time, width int) error {
	var distances []string
	widest := 0
	for _, m := range all {
		text := ""
		switch d := m.at.Sub(now); {
		case m.coming:
			text = "in " + cli.Span(d)
		case d < 0: // a decision by a clock that is ahead has no age
			text = cli.Span(-d) + " ago"
		}
		distances = append(distances, text)
		widest = max(widest, utf8.RuneCountInString(text))
	}
	for i, m := range all {
		start := fmt.Sprintf("%s  %-*s  ", m.at.Local().Format("2006-01-02 15:04:05 -07:00"), widest, distances[i])
		if _, err := fmt.Fprintln(w, start+cli.Wrap(m.text, utf8.RuneCountInString(start), width)); err != nil {
			return err
		}
	}
	return nil
}
