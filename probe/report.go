package probe

import "time"

// ReportSchema names the form of a Report as JSON. It changes when a field changes its meaning; fields may be added.
const ReportSchema = "retrysafe-probe-report/2"

// Report is what a run has found.
type Report struct {
	Schema   string        `json:"schema"`
	Target   string        `json:"target"`
	Profile  string        `json:"profile"`
	BeganAt  time.Time     `json:"began_at"`
	Took     time.Duration `json:"took_ns"`
	Requests int           `json:"requests"`
	Evidence Evidence      `json:"evidence"`
	// Causes are what the FAILs have in common, the cause of most of them first; none if there are few, or they have
	// nothing in common.
	Causes   []Cause   `json:"causes,omitempty"`
	Outcomes []Outcome `json:"outcomes"`
	Observed Observed  `json:"observed"`
}

// Outcome is how one case has ended.
type Outcome struct {
	ID       string   `json:"id"`
	Name     string   `json:"name"`
	Checks   string   `json:"checks"`
	Source   string   `json:"source"`
	Severity Severity `json:"severity"`
	Safe     bool     `json:"safe,omitempty"`
	Draft    bool     `json:"draft,omitempty"`
	Verdict  Verdict  `json:"verdict"`
	// NotInProfile: the verdict is N/A because the profile has no such rule, whatever the recipe has.
	NotInProfile bool          `json:"not_in_profile,omitempty"`
	Evidence     Evidence      `json:"evidence"`
	Findings     []Finding     `json:"findings,omitempty"`
	Why          string        `json:"why,omitempty"`
	Fix          string        `json:"fix,omitempty"`
	Took         time.Duration `json:"took_ns"`
	Timeline     []Exchange    `json:"timeline,omitempty"`

	ranAgain bool // more effects were seen than there should have been
}

// Count is how many cases have ended so.
func (r *Report) Count(v Verdict) (n int) {
	for _, o := range r.Outcomes {
		if o.Verdict == v {
			n++
		}
	}
	return n
}

// Find returns the outcome of a case.
func (r *Report) Find(id string) (Outcome, bool) {
	for _, o := range r.Outcomes {
		if o.ID == id {
			return o, true
		}
	}
	return Outcome{}, false
}
