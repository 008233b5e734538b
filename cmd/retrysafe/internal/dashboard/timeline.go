package dashboard

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/keys"
)

// moment is a thing that has happened to a key, or will.
type moment struct {
	Kind  string    // past, person, unknown, now or future
	At    time.Time // zero: the record does not say when
	From  string    // "3 min ago", "in 2 h"
	Title string
	Text  string
}

// momentsOf returns what the record says about the key's past, its present and its future, in this order. Records have
// the times of the first claim, of the end and of decisions; attempts and steps between them have none.
func momentsOf(r keys.Record) []moment {
	now := time.Now()
	ago := func(seconds float64, m moment) moment {
		m.At, m.From = now.Add(-time.Duration(seconds*float64(time.Second))), span(seconds)+" ago"
		return m
	}
	all := []moment{ago(r.Age, moment{Kind: "past", Title: "First claimed", Text: "Attempt 1 began."})}
	if r.Attempt > 1 {
		all = append(all, moment{Kind: "past", Title: fmt.Sprintf("%d attempts", r.Attempt), Text: "Each later one took the key over, or resumed it; a decision counts as one."})
	}
	for _, s := range r.Steps {
		all = append(all, moment{
			Kind: "past", Title: "Step saved: " + cli.Clean(s.Name),
			Text: bytesOf(s.Bytes) + ". A later attempt does not repeat it.",
		})
	}
	if r.State == keys.Abandoned || r.State == keys.Uncommitted {
		all = append(all, moment{Kind: "unknown", Title: "The lease ran out", Text: "The attempt was not seen to end."})
	}
	before, after := decisionsOf(r, now)
	known := before
	if r.Answer != nil || r.State == keys.Released {
		known = append(known, ago(r.Ended, endOf(r)))
	}
	known = append(known, after...)
	for _, s := range r.Sightings {
		known = append(known, sightingsOf(s, ago)...)
	}
	slices.SortStableFunc(known, func(a, b moment) int { return a.At.Compare(b.At) })
	all = append(all, known...)
	all = append(all, moment{Kind: "now", At: now, Title: "Now: " + r.State, Text: sentence(keys.Meaning(r))})
	return append(all, futureOf(r, now)...)
}

// sightingsOf returns the first and the last request that found the record, of a kind.
func sightingsOf(s keys.Sighting, ago func(float64, moment) moment) (all []moment) {
	what, result, _ := strings.Cut(keys.SeenText(s.Kind), ": ")
	title, last := strings.ToUpper(what[:1])+what[1:], ""
	if s.Code != 0 {
		last = fmt.Sprintf(" Its code was %d.", s.Code)
	}
	if s.Count > 1 {
		all = append(all, ago(s.First, moment{Kind: "past", Title: fmt.Sprintf("%s, the first of %d", title, s.Count), Text: sentence(result)}))
		title = fmt.Sprintf("%s, the last of %d", title, s.Count)
	}
	return append(all, ago(s.Last, moment{Kind: "past", Title: title, Text: sentence(result) + last}))
}

// decisionsOf returns the decisions before the end of the key, and those after it: purges, and that it was reopened.
func decisionsOf(r keys.Record, now time.Time) (before, after []moment) {
	for _, e := range r.Trail {
		m := moment{
			Kind: "person", At: e.At, From: span(now.Sub(e.At).Seconds()) + " ago",
			Title: fmt.Sprintf("%s decided: %s", nameOr(e.By), actionWords(e.Action)), Text: cli.Clean(e.Reason),
		}
		if e.Unfinished {
			m.Text += " — not carried out: the process or the store failed."
		}
		if e.Action == retrysafe.ResolvePurge || e.Action == retrysafe.ResolveReopen {
			after = append(after, m)
		} else {
			before = append(before, m)
		}
	}
	return before, after
}

func nameOr(by string) string {
	if by == "" {
		return "A person without a name"
	}
	return cli.Clean(by)
}

func endOf(r keys.Record) moment {
	switch {
	case r.State == keys.Released:
		return moment{Kind: "past", Title: "Released", Text: "The key was given back without an answer."}
	case r.Answer.Closed:
		return moment{Kind: "past", Title: "Closed", Text: "The operation does not run under this key."}
	}
	text := fmt.Sprintf("The answer has code %d and %s of body.", r.Answer.Code, bytesOf(r.Answer.Bytes))
	if r.Answer.Omitted {
		text = fmt.Sprintf("The answer had code %d and was not kept.", r.Answer.Code)
	}
	title := "The operation succeeded"
	if r.State == keys.Failed {
		title = "The operation failed"
	}
	return moment{Kind: "past", Title: title, Text: text}
}

// futureOf returns the ends of the windows that still run, the next one first.
func futureOf(r keys.Record, now time.Time) (all []moment) {
	in := func(seconds float64, title, text string) {
		if seconds > 0 {
			all = append(all, moment{
				Kind: "future", At: now.Add(time.Duration(seconds * float64(time.Second))), From: "in " + span(seconds),
				Title: title, Text: text,
			})
		}
	}
	in(r.LeaseLeft, "The lease ends", "Unless the attempt extends it or ends, the key is then abandoned.")
	if r.Answer != nil {
		in(r.ReplayLeft, "Replays end", "After that a retry is told that the operation has ended, without the answer.")
	}
	in(r.KeyLeft, "The key is free", "After that the same request runs as if it were new.")
	if r.Answer != nil && r.AuditLeft > r.KeyLeft {
		in(r.AuditLeft, "The record is deleted", "Until then it is kept for audits.")
	}
	slices.SortStableFunc(all, func(a, b moment) int { return a.At.Compare(b.At) })
	return all
}

// windowBar is a window of the key that still runs, as a share of the longest one.
type windowBar struct {
	Name  string
	Left  float64
	Width int // of 400
}

func windowsOf(r keys.Record) (all []windowBar) {
	add := func(name string, left float64) {
		if left > 0 {
			all = append(all, windowBar{Name: name, Left: left})
		}
	}
	add("lease", r.LeaseLeft)
	if r.Answer != nil {
		add("replay", r.ReplayLeft)
	}
	add("key taken", r.KeyLeft)
	if r.Answer != nil {
		add("audit", r.AuditLeft)
	}
	longest := 0.0
	for _, w := range all {
		longest = max(longest, w.Left)
	}
	for i := range all {
		all[i].Width = max(int(400*all[i].Left/longest), 2)
	}
	return all
}

// actionWords say what a person has decided.
func actionWords(a retrysafe.ResolveAction) string {
	for _, c := range choices {
		if c.Action == a {
			return c.Short
		}
	}
	return string(a)
}

func bytesOf(n int) string {
	if n == 1 {
		return "1 byte"
	}
	return fmt.Sprintf("%d bytes", n)
}
