package probe

import "slices"

// Case is one promise that a run checks. Its texts are what users read: one author keeps their terms consistent.
type Case struct {
	ID       string
	Name     string   // a word or two
	Checks   string   // the promise: a sentence that is true of an API that passes
	Source   string   // the RFC, draft or documentation that makes the promise
	Severity Severity // of a FAIL
	// Why says what happens to clients and their customers if the case fails. Fix says what to change on the server.
	Why, Fix string
	// Safe cases count for the score "retry-safe", Draft cases for the score "ietf" as well.
	Safe, Draft bool
	// Needs are what the recipe must have. If one is missing, the case does not run and ends as N/A.
	Needs []Need
	// Profiles are those that make the promise. Without any, all profiles make it.
	Profiles []string
	// Off says why there is nothing to check at this API, whatever the recipe has: the case ends as N/A. "": there is.
	Off string
	// Play runs the case. A case that notes no finding has passed.
	Play func(r *Run)
}

// Severity says how bad a FAIL is.
type Severity string

const (
	Critical Severity = "critical" // money is lost, or one caller sees another's data
	Major    Severity = "major"    // clients cannot retry as they were told
	Minor    Severity = "minor"    // clients have to guess
)

// Need is a part of the recipe without which a case cannot run.
type Need struct {
	What string      // completes the sentence "the recipe lacks …"
	Met  func() bool // whether the recipe has it
}

// missing returns what the recipe lacks for the case: the first need that is not met, or "".
func (c Case) missing() string {
	for _, n := range c.Needs {
		if !n.Met() {
			return n.What
		}
	}
	return ""
}

// isFor reports whether the rules of the profile have the promise that the case checks.
func (c Case) isFor(profile string) bool {
	return len(c.Profiles) == 0 || slices.Contains(c.Profiles, profile)
}

// outcome returns what a report says of the case before it has run.
func (c Case) outcome(e Evidence) Outcome {
	return Outcome{
		ID: c.ID, Name: c.Name, Checks: c.Checks, Source: c.Source, Severity: c.Severity, Safe: c.Safe, Draft: c.Draft,
		Evidence: e,
	}
}
