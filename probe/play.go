package probe

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Suite is the cases of one protocol for one target. Play runs them in their order.
type Suite struct {
	Cases   []Case
	Target  string // for the report, without credentials
	Profile string
	Route   string  // of the API, if it has several
	Count   Counter // may be nil
	Meter   *Meter
	// Observed is what is known before the first case; cases add to it.
	Observed Observed
	// Mask takes credentials out of a text. May be nil.
	Mask func(text string) string

	// lag is the longest time after an answer at which its effect was not counted yet.
	lag time.Duration
	// counted: there has been a count.
	counted bool
}

// Options of Play. Options{} plays every case.
type Options struct {
	Only, Skip []string // identifiers of cases, or letters of groups: "M01", "C"
	Safe       bool     // only the cases of the badge "safe"
	// Progress is called before and after each case; Outcome is nil before. May be nil.
	Progress func(c Case, done, all int, o *Outcome)
	// Now is when the run began. Default: now.
	Now time.Time
}

// Play runs the cases that the options choose, one after the other, and reports. It returns an error if the options
// name an unknown case, if the effects can never be counted, or if ctx ends; the report then has the cases that ran
// before.
func Play(ctx context.Context, s Suite, o Options) (*Report, error) {
	cases, err := o.choose(s.Cases)
	if err != nil {
		return nil, err
	}
	if o.Now.IsZero() {
		o.Now = time.Now()
	}
	report := &Report{
		Schema: ReportSchema, Target: s.Target, Profile: s.Profile, BeganAt: o.Now, Evidence: evidenceOf(s.Count),
		Route: s.Route,
	}
	for i, c := range cases {
		if o.Progress != nil {
			o.Progress(c, i, len(cases), nil)
		}
		var outcome Outcome
		if outcome, err = s.play(ctx, c); err != nil {
			break // with what was found so far
		}
		report.Outcomes = append(report.Outcomes, outcome)
		if o.Progress != nil {
			o.Progress(c, i+1, len(cases), &outcome)
		}
	}
	report.Took = time.Since(o.Now)
	report.Requests = s.Meter.made()
	report.Observed = s.Observed
	report.Causes = causesOf(report.Outcomes)
	return report, err
}

// play runs one case, or says why it does not run. Cases that do not run have no timeline.
func (s *Suite) play(ctx context.Context, c Case) (Outcome, error) {
	o := c.outcome(evidenceOf(s.Count))
	ended := func(v Verdict, why string) (Outcome, error) {
		o.Verdict, o.Findings = v, []Finding{{v, why}}
		return o, nil
	}
	if !c.isFor(s.Profile) {
		o.NotInProfile = true
		return ended(NA, "profile "+s.Profile+" has no such rule")
	}
	if c.Off != "" {
		o.NotInProfile = true
		return ended(NA, c.Off)
	}
	if what := c.missing(); what != "" {
		return ended(NA, "the recipe lacks "+what)
	}
	if s.Meter.empty() {
		return ended(Broken, errRequests.Error())
	}
	began := time.Now()
	r := &Run{ctx: ctx, suite: s}
	if err := r.countBase(); err != nil {
		if !s.counted || ctx.Err() != nil {
			return o, fmt.Errorf("count the effects: %w", err)
		}
		return ended(Broken, "the effects could not be counted: "+err.Error()) // it has worked before: other cases may run
	}
	r.play(c)
	if err := ctx.Err(); err != nil {
		return o, err
	}
	o.Took, o.Timeline, o.ranAgain = time.Since(began), r.exchanges, r.ranAgain
	o.Verdict, o.Findings = r.judge()
	if o.Verdict == Fail || o.Verdict == Warn {
		o.Why, o.Fix = c.Why, c.Fix
	}
	return o, nil
}

// choose returns the cases that the options ask for. It returns an error for a name that is neither a case nor a group:
// a misspelled case would otherwise be skipped silently.
func (o Options) choose(all []Case) ([]Case, error) {
	known := map[string]bool{}
	for _, c := range all {
		known[c.ID], known[c.ID[:1]] = true, true
	}
	for _, name := range slices.Concat(o.Only, o.Skip) {
		if !known[name] {
			return nil, fmt.Errorf("unknown case %q: retrysafe probe --list shows all cases", name)
		}
	}
	named := func(names []string, c Case) bool {
		return slices.Contains(names, c.ID) || slices.Contains(names, c.ID[:1])
	}
	return slices.DeleteFunc(slices.Clone(all), func(c Case) bool {
		return len(o.Only) > 0 && !named(o.Only, c) || named(o.Skip, c) || o.Safe && !c.Safe
	}), nil
}
