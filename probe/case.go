package probe

import "slices"

// Case is one rule that a run checks.
type Case struct {
	ID       string
	Name     string   // a word or two
	Checks   string   // the sentence that must be true
	Source   string   // where that is written
	Severity Severity // of a FAIL
	// Why says what a client loses when it fails, Fix what to change in the API.
	Why, Fix string
	// Safe cases are required for the badge "safe", Draft cases for the badge "ietf" too.
	Safe, Draft bool
	// Needs are what the recipe must have; a case whose needs are not met is N/A.
	Needs []Need
	// Profiles it is for; none: all.
	Profiles []string
	// Play runs the case. Without a finding the case passes.
	Play func(r *Run)
}

// Severity says how bad a FAIL is.
type Severity string

const (
	Critical Severity = "critical" // money is lost, or one caller sees another's data
	Major    Severity = "major"    // clients cannot retry as they were told
	Minor    Severity = "minor"    // clients have to guess
)

// Need is what a case needs of the recipe.
type Need struct {
	What string      // for a person whose recipe lacks it
	Met  func() bool // whether the recipe has it
}

// missing is the first need that is not met.
func (c Case) missing() string {
	for _, n := range c.Needs {
		if !n.Met() {
			return n.What
		}
	}
	return ""
}

func (c Case) isFor(profile string) bool {
	return len(c.Profiles) == 0 || slices.Contains(c.Profiles, profile)
}

// outcome is what a report says of the case before it has run.
func (c Case) outcome(e Evidence) Outcome {
	return Outcome{
		ID: c.ID, Name: c.Name, Checks: c.Checks, Source: c.Source, Severity: c.Severity, Safe: c.Safe, Draft: c.Draft,
		Evidence: e,
	}
}
