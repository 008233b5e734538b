package probe

import "time"

// ReportSchema names the form of a Report as JSON. It changes when a field changes its meaning; fields may be added.
const ReportSchema = "retrysafe-probe-report/2"

// Report is the result of a run. Its JSON form is documented in docs/probe-report.md and named by ReportSchema.
type Report struct {
	Schema   string        `json:"schema"`
	Target   string        `json:"target"`
	Profile  string        `json:"profile"`
	BeganAt  time.Time     `json:"began_at"`
	Took     time.Duration `json:"took_ns"`
	Requests int           `json:"requests"`
	Evidence Evidence      `json:"evidence"`
	// Causes are what several FAILs have in common, the cause of most of them first. There are none if few cases failed,
	// or if their FAILs have nothing in common.
	Causes   []Cause   `json:"causes,omitempty"`
	Outcomes []Outcome `json:"outcomes"`
	// Routes are those that the recipe names. There are none if it has one request. With routes, Observed says nothing:
	// each route has its own.
	Routes   []RouteReport `json:"routes,omitempty"`
	Observed Observed      `json:"observed"`
	// Route is the one that the report is about, if its recipe names one. Join moves it into the outcomes.
	Route string `json:"route,omitempty"`
}

// Outcome is the result of one case. It has the texts of the case, so that a report can be read without the program
// that wrote it. Why and Fix are there only if the verdict is FAIL or WARN.
type Outcome struct {
	Route    string   `json:"route,omitempty"` // the name of the route, if the recipe has routes
	ID       string   `json:"id"`
	Name     string   `json:"name"`
	Checks   string   `json:"checks"`
	Source   string   `json:"source"`
	Severity Severity `json:"severity"`
	Safe     bool     `json:"safe,omitempty"`
	Draft    bool     `json:"draft,omitempty"`
	Verdict  Verdict  `json:"verdict"`
	// NotInProfile says that the verdict is N/A because of the profile, or of the place that the API has keys in, so that
	// no addition to the recipe would help.
	NotInProfile bool          `json:"not_in_profile,omitempty"`
	Evidence     Evidence      `json:"evidence"`
	Findings     []Finding     `json:"findings,omitempty"`
	Why          string        `json:"why,omitempty"`
	Fix          string        `json:"fix,omitempty"`
	Took         time.Duration `json:"took_ns"`
	Timeline     []Exchange    `json:"timeline,omitempty"`

	ranAgain bool // more effects were seen than there should have been
}

// Count returns how many cases have ended with that verdict.
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
