package probe

import (
	"slices"
	"time"
)

// Case is one thing that a run looks at.
type Case struct {
	ID       string
	Name     string   // a word or two
	Checks   string   // the sentence that must be true
	Source   string   // where that is written
	Severity Severity // of a FAIL
	// Why says what a client loses when it fails, Fix what to change in the API.
	Why, Fix string
	// Safe cases are what the badge "safe" asks for, Draft those that the badge "ietf" asks for too.
	Safe, Draft bool
	// Needs are what the recipe must have; a case whose needs are not met is N/A.
	Needs []Need
	// Profiles it is for; none: all.
	Profiles []string

	run func(t *Trial)
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
	// What a person is told who lacks it.
	What string
	met  func(r *Recipe) bool
}

// Cases are all of them in the order in which they are played.
func Cases() []Case {
	return slices.Concat(basics(), moreBasics(), keySyntax(), mismatches(), concurrency(), failures(), behind(), scopes(), hygiene(), expiry())
}

func (c Case) isFor(profile string) bool {
	return len(c.Profiles) == 0 || slices.Contains(c.Profiles, profile)
}

// missing is the first need that is not met.
func (c Case) missing(r *Recipe) string {
	for _, n := range c.Needs {
		if !n.met(r) {
			return n.What
		}
	}
	return ""
}

func needs(what string, met func(r *Recipe) bool) Need { return Need{what, met} }

// Needs that several cases have.
func aSlowVariant() Need {
	return needs("variants.slow: a request that takes a second or more", func(r *Recipe) bool { return r.Variants.Slow != nil })
}

func aChangingBody() Need {
	return needs("a generator such as {{amount}} in request.body, so that another request can be made", func(r *Recipe) bool {
		return r.Request.changes()
	})
}

func twoCredentials() Need {
	return needs("credentials a and b: two callers", func(r *Recipe) bool { return len(r.A) > 0 && len(r.B) > 0 })
}

func aCredential() Need {
	return needs("credentials.a: what an ordinary caller sends", func(r *Recipe) bool { return len(r.A) > 0 })
}

func someRetention() Need {
	return needs("a retention of more than a few seconds, since the case waits for two", func(r *Recipe) bool {
		return r.Retention == 0 || r.Retention > 5*time.Second
	})
}

func aJSONBody() Need {
	return needs("a request.body that is JSON", func(r *Recipe) bool { return r.Request.isJSON() })
}
