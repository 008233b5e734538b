package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe/probe"
)

// Gate is how near a report is to a badge.
type Gate struct {
	Name string
	// Met are the cases that are as they must be, of Of that the profile has.
	Met, Of int
	// Failed are the FAILs of the whole report, within the gate or not: with one there is no badge.
	Failed int
}

// OK reports whether the badge is earned.
func (g Gate) OK() bool { return g.Of > 0 && g.Met == g.Of && g.Failed == 0 }

// String is the gate as a badge has it.
func (g Gate) String() string {
	s := fmt.Sprintf("%d/%d", g.Met, g.Of)
	if g.Failed > 0 {
		s += fmt.Sprintf(", %d FAIL", g.Failed)
	}
	return s
}

// Safe is the gate "safe": each case that protects from doing a thing twice, and from another caller's data.
func Safe(r *probe.Report) Gate {
	return gate("retry-safe", r, func(c probe.Case) bool { return c.Safe })
}

// Draft is the gate "ietf": Safe, and what the IETF draft says beside. It is for the profiles of the draft.
func Draft(r *probe.Report) Gate {
	return gate("ietf", r, func(c probe.Case) bool { return c.Safe || c.Draft })
}

// ofDraft reports whether the report is about the IETF draft, which is about HTTP.
func ofDraft(r *probe.Report) bool {
	return strings.HasPrefix(r.Profile, "ietf") && r.Observed.Protocol == ""
}

// overGRPC are the cases of a run over gRPC, as far as gates need them. Package grpcprobe has the rest of them; the standard library
// does not speak gRPC.
func overGRPC() []probe.Case {
	var all []probe.Case
	for _, id := range []string{"G01", "G02", "G03", "G04", "G05", "G06"} {
		all = append(all, probe.Case{ID: id, Safe: true})
	}
	return all
}

// casesOf are the cases by which a report is judged.
func casesOf(r *probe.Report) []probe.Case {
	if r.Observed.Protocol == "grpc" {
		return overGRPC()
	}
	return probe.Cases()
}

// gate counts. A case that was not played, or that the recipe was not enough for, is not met: nobody knows.
func gate(name string, r *probe.Report, within func(probe.Case) bool) Gate {
	g := Gate{Name: name, Failed: r.Count(probe.Fail)}
	for _, c := range casesOf(r) {
		o, played := r.Find(c.ID)
		switch {
		case !within(c), played && o.NotInProfile, len(c.Profiles) > 0 && !slices.Contains(c.Profiles, r.Profile):
			continue
		case played && meets(o.Verdict):
			g.Met++
		}
		g.Of++
	}
	return g
}

// meets reports verdicts that a gate is content with. INFO is a case that was played where the profile leaves open what is right: it has
// found nothing wrong.
func meets(v probe.Verdict) bool { return v == probe.Pass || v == probe.Info }
