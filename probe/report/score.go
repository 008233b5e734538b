package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/cases"
)

// The verdicts of a Score.
const (
	Yes      = "yes"       // every case of the badge has passed, and no case of the report has failed
	No       = "no"        // a case has failed, of the badge or not
	NotShown = "not shown" // no case has failed, but some of the badge's were not played, or did not pass
)

// Score is the answer of a report to one question: is the API safe to retry, or does it do what the IETF draft says?
// Its verdict is the badge. The numbers explain the verdict and are no marks: what was not played is not known, and
// one FAIL is enough for No.
type Score struct {
	Name    string `json:"name"` // "retry-safe" or "ietf"
	Verdict string `json:"verdict"`
	// Reason is a sentence that says why.
	Reason string `json:"reason"`
	// Asked is how many cases the badge asks for, of those that the profile has; Passed is how many of them are PASS
	// or INFO.
	Asked  int `json:"asked"`
	Passed int `json:"passed"`
	// Open are the badge's cases that have neither passed nor failed, each with what became of it, such as "X01 N/A".
	Open []string `json:"open,omitempty"`
	// Failed are the FAILs of the whole report, and Played is how many cases it has that are neither N/A nor BROKEN.
	Failed []string `json:"failed,omitempty"`
	Played int      `json:"played"`
}

// OK reports whether the badge is earned.
func (s Score) OK() bool { return s.Verdict == Yes }

// String returns the score with its reason.
func (s Score) String() string { return s.Verdict + ": " + s.Reason }

// Safe returns the score "retry-safe". It is about the cases that protect from running an operation twice and from
// showing another caller's data.
func Safe(r *probe.Report) Score {
	return score("retry-safe", r, func(c probe.Case) bool { return c.Safe })
}

// Draft returns the score "ietf": Safe, and what else the IETF draft asks for. It exists only for the profiles of the
// draft.
func Draft(r *probe.Report) Score {
	return score("ietf", r, func(c probe.Case) bool { return c.Safe || c.Draft })
}

// scores returns the scores that a report has.
func scores(r *probe.Report) []Score {
	all := []Score{Safe(r)}
	if ofDraft(r) {
		all = append(all, Draft(r))
	}
	return all
}

// ofDraft reports whether the report is about the IETF draft, which is about HTTP.
func ofDraft(r *probe.Report) bool {
	return (r.Profile == "ietf" || r.Profile == "ietf-strict") && r.Observed.Protocol == ""
}

// overGRPC returns the cases of gRPC as far as scores need them. The complete ones are in package grpcprobe, whose
// dependencies this package must not have.
func overGRPC() []probe.Case {
	var all []probe.Case
	for _, id := range []string{"G01", "G02", "G03", "G04", "G05", "G06"} {
		all = append(all, probe.Case{ID: id, Safe: true})
	}
	return all
}

// casesOf returns the cases by which a report is scored, from the protocol that it is about.
func casesOf(r *probe.Report) []probe.Case {
	if r.Observed.Protocol == "grpc" {
		return overGRPC()
	}
	return cases.All()
}

// score counts. A case that was not played, or that the recipe was not enough for, is open: its verdict is unknown.
func score(name string, r *probe.Report, within func(probe.Case) bool) Score {
	s := Score{Name: name, Played: len(r.Outcomes) - r.Count(probe.NA) - r.Count(probe.Broken)}
	for _, o := range r.Outcomes {
		if o.Verdict == probe.Fail {
			s.Failed = append(s.Failed, named(o.Route, line(o.ID)))
		}
	}
	for _, route := range r.Sections() {
		s.count(route, within)
	}
	s.judge()
	return s
}

// count adds the badge's cases of a route, or of an API with one request.
func (s *Score) count(r *probe.Report, within func(probe.Case) bool) {
	for _, c := range casesOf(r) {
		o, played := r.Find(c.ID)
		declared := cmp.Or(r.Observed.Profile, r.Profile) // of a profile of the API's own: its base
		notInProfile := o.NotInProfile || !played && len(c.Profiles) > 0 && !slices.Contains(c.Profiles, declared)
		if !within(c) || notInProfile {
			continue
		}
		s.Asked++
		switch {
		case !played:
			s.Open = append(s.Open, named(r.Route, c.ID)+" not played")
		case passes(o.Verdict):
			s.Passed++
		case o.Verdict != probe.Fail:
			s.Open = append(s.Open, named(r.Route, c.ID)+" "+string(o.Verdict))
		}
	}
}

// named returns the identifier of a case behind its route, if the report has routes.
func named(route, id string) string { return strings.TrimSpace(line(route) + " " + id) }

// judge gives the verdict and says why.
func (s *Score) judge() {
	switch {
	case len(s.Failed) > 0:
		s.Verdict = No
		s.Reason = fmt.Sprintf("%d of the %s played failed: %s", len(s.Failed), counted(s.Played, "case"), some(s.Failed))
	case len(s.Open) > 0 || s.Asked == 0:
		s.Verdict = NotShown
		s.Reason = fmt.Sprintf("nothing failed, but only %d of the badge's %s passed; open: %s", s.Passed,
			counted(s.Asked, "case"), some(s.Open))
	default:
		s.Verdict = Yes
		s.Reason = fmt.Sprintf("all %d cases of the badge passed, and none of the %s played failed", s.Asked,
			counted(s.Played, "case"))
	}
}

// some returns the first elements of a list as text, and how many more there are.
func some(all []string) string {
	const most = 5
	if len(all) <= most {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(all[:most], ", "), len(all)-most)
}

// passes reports verdicts that a score is content with. INFO is a case that was played where the profile leaves open
// what is right: it has found nothing wrong.
func passes(v probe.Verdict) bool { return v == probe.Pass || v == probe.Info }
