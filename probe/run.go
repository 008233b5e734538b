package probe

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// Options of Run. Options{} plays every case.
type Options struct {
	Only, Skip []string // identifiers of cases, or letters of groups: "M01", "C"
	Safe       bool     // only the cases of the badge "safe"
	// Progress is told before and after each case; Outcome is nil before. May be nil.
	Progress func(c Case, done, all int, o *Outcome)
	// Now is when the run began. Default: now.
	Now time.Time
}

// run is one run of the probe.
type run struct {
	recipe  *Recipe
	rules   Rules
	wire    *wire
	intents *intents
	seen    Observed
	// hopeless: a rate limit has not ended for as long as a request may wait.
	hopeless atomic.Bool
	// lag is how long after an answer its effect could be seen to be counted, at the longest.
	lag time.Duration
	// counted: there has been a count.
	counted bool
	// other is the protocol if it is not HTTP.
	other *Protocol
}

// Run plays the cases against the target, one after the other, and reports. It returns an error if the recipe is wrong, if
// the target cannot be reached at all, or if ctx ends.
func Run(ctx context.Context, recipe Recipe, o Options) (*Report, error) {
	if err := recipe.check(); err != nil {
		return nil, err
	}
	rules, err := rulesOf(recipe.Profile)
	if err != nil {
		return nil, err
	}
	return newRun(recipe, rules).playAll(ctx, Cases(), o)
}

func newRun(recipe Recipe, rules Rules) *run {
	recipe.Limits = recipe.Limits.withDefaults()
	return &run{
		recipe: &recipe, rules: rules, wire: newWire(recipe.Target, recipe.Limits), intents: newIntents(), seen: newObserved(rules, recipe),
	}
}

// playAll plays those of the cases that were asked for.
func (r *run) playAll(ctx context.Context, all []Case, o Options) (*Report, error) {
	cases, err := o.choose(all)
	if err != nil {
		return nil, err
	}
	if o.Now.IsZero() {
		o.Now = time.Now()
	}
	report := &Report{
		Schema: ReportSchema, Target: r.recipe.Target.Redacted(), Profile: r.rules.Name, BeganAt: o.Now, Evidence: r.recipe.evidence(),
	}
	for i, c := range cases {
		if o.Progress != nil {
			o.Progress(c, i, len(cases), nil)
		}
		outcome, err := r.play(ctx, c)
		if err != nil {
			return report, err
		}
		report.Outcomes = append(report.Outcomes, outcome)
		if o.Progress != nil {
			o.Progress(c, i+1, len(cases), &outcome)
		}
	}
	report.Took = time.Since(o.Now)
	report.Requests = r.wire.meter.made()
	report.Observed = r.seen
	report.Causes = causesOf(report.Outcomes)
	return report, nil
}

// play plays one case.
func (r *run) play(ctx context.Context, c Case) (Outcome, error) {
	o := Outcome{
		ID: c.ID, Name: c.Name, Checks: c.Checks, Source: c.Source, Severity: c.Severity, Safe: c.Safe, Draft: c.Draft,
		Evidence: r.recipe.evidence(),
	}
	if !c.isFor(r.rules.Name) {
		o.Verdict, o.NotInProfile, o.Findings = NA, true, []Finding{{NA, "profile " + r.rules.Name + " has no such rule"}}
		return o, nil
	}
	if what := c.missing(r.recipe); what != "" {
		o.Verdict, o.Findings = NA, []Finding{{NA, "the recipe lacks " + what}}
		return o, nil
	}
	if r.wire.meter.empty() {
		o.Verdict, o.Findings = Broken, []Finding{{Broken, errRequests.Error()}}
		return o, nil
	}
	began := time.Now()
	t := &Trial{Rules: r.rules, Recipe: r.recipe, ctx: ctx, run: r}
	if r.recipe.Count != nil {
		var err error
		t.base, err = r.base(ctx)
		switch {
		case err != nil && (!r.counted || ctx.Err() != nil):
			return o, fmt.Errorf("count the effects: %w", err)
		case err != nil: // it has worked before: the other cases are worth a try
			o.Verdict, o.Findings = Broken, []Finding{{Broken, "the effects could not be counted: " + err.Error()}}
			return o, nil
		}
		r.counted = true
	}
	c.run(t)
	if err := ctx.Err(); err != nil {
		return o, err
	}
	o.Took, o.Timeline = time.Since(began), t.exchange
	o.judge(t)
	if o.Verdict == Fail || o.Verdict == Warn {
		o.Why, o.Fix = c.Why, c.Fix
	}
	return o, nil
}

// judge takes the worst of what was found.
func (o *Outcome) judge(t *Trial) {
	o.Verdict, o.Findings, o.ranAgain = Pass, t.findings, t.ranAgain
	if t.na != "" && len(t.findings) == 0 {
		o.Verdict, o.Findings = NA, []Finding{{NA, t.na}}
		return
	}
	for _, f := range t.findings {
		if f.Verdict.rank() > o.Verdict.rank() {
			o.Verdict = f.Verdict
		}
	}
	if why := t.hindrance(); why != "" && o.Verdict == Fail {
		o.Verdict, o.Findings = Broken, []Finding{{Broken, why}}
		return
	}
	slices.SortStableFunc(o.Findings, func(a, b Finding) int { return b.Verdict.rank() - a.Verdict.rank() })
}

// choose is the cases that were asked for.
func (o Options) choose(all []Case) ([]Case, error) {
	known := map[string]bool{}
	for _, c := range all {
		known[c.ID], known[c.ID[:1]] = true, true
	}
	for _, name := range slices.Concat(o.Only, o.Skip) {
		if !known[name] {
			return nil, fmt.Errorf("no case %q: --list shows them", name)
		}
	}
	named := func(names []string, c Case) bool {
		return slices.Contains(names, c.ID) || slices.Contains(names, c.ID[:1])
	}
	return slices.DeleteFunc(all, func(c Case) bool {
		return len(o.Only) > 0 && !named(o.Only, c) || named(o.Skip, c) || o.Safe && !c.Safe
	}), nil
}
