package probe

import "slices"

// Cause is what several FAILs have in common. Once it is fixed most of them pass.
type Cause struct {
	Route string   `json:"route,omitempty"` // that it is about, if the recipe has routes
	Text  string   `json:"text"`
	Begin string   `json:"begin"` // the case to look at first
	Cases []string `json:"cases"` // that fail for it
}

// root is a cause, and how it is known.
type root struct {
	text string
	// shownBy are the cases that all fail for it, as far as they were played; the first is the one to begin with.
	shownBy []string
	// takes are other cases that fail for it, or letters of groups; but are those that do not.
	takes, but []string
	// rerun are those of shownBy that show it only if more than one effect was seen.
	rerun []string
}

// roots returns the known causes. Their order matters: a FAIL that one of them explains is not attributed to the next.
func roots() []root {
	return []root{
		{
			text: "the target refuses requests that have a key", shownBy: []string{"B01"},
			takes: []string{"B", "K", "M", "C", "F", "X", "H", "T", "G"},
		},
		{
			text:    "the API ignores the key",
			shownBy: []string{"B02", "B03", "B07", "F08", "M02", "G01", "G03", "G04"},
			takes:   []string{"B", "K", "M", "C", "F", "X", "H", "T", "G"},
			but:     []string{"B01", "B04", "B05", "B06", "B09", "X02", "X03", "X05", "T05", "T06", "T07"},
			rerun:   []string{"B02", "G01"},
		},
		{
			text:    "the API does not save answers unchanged",
			shownBy: []string{"B11", "B02"}, takes: []string{"B", "K", "M", "C", "F", "X01", "X06", "H", "T"},
			but: []string{"B01", "B04", "B05", "B06", "B09"},
		},
		{
			text:    "simultaneous requests with one key all run",
			shownBy: []string{"C01", "G03"}, takes: []string{
				"C02", "C03", "C04", "C05", "C06", "C07", "C09", "F07",
				"F08", "F09", "G04",
			},
		},
		{
			text:    "the API does not compare a request with the first one of its key",
			shownBy: []string{"M01", "G02"}, takes: []string{"M", "C06", "F02", "F03", "K06", "X04"},
			but: []string{"M11", "M12"},
		},
		{
			text: "the API looks up keys before it authenticates the caller", shownBy: []string{"X02"},
			takes: []string{"X01", "X03", "X04"},
		},
		{
			text: "the caller is not part of the key", shownBy: []string{"X01", "G06"}, takes: []string{"X02", "X03", "X04"},
		},
		{
			text: "a client that disconnects stops the operation or the saving of its answer", shownBy: []string{"F07"},
			takes: []string{"F08", "F09", "C09"},
		},
		{
			text: "refusals by the idempotency layer or of a credential are saved as the answer", shownBy: []string{"F04"},
			takes: []string{"F05", "C05", "M02", "M13", "F12"},
		},
		{
			text: "keys do not outlive the process", shownBy: []string{"F11"}, takes: []string{"F10"},
		},
		{
			text:    "malformed keys are not refused",
			shownBy: []string{"K04", "G05"}, takes: []string{"K05", "K06", "K08", "K09", "K10", "K11", "K12", "K13", "H07"},
		},
		{
			text: "the API cuts long keys", shownBy: []string{"K09"}, takes: []string{"K07", "K08"},
		},
	}
}

// fewest is how many FAILs can have something in common.
const fewest = 2

// causesOf finds what the FAILs of a run have in common, the cause of most of them first. It looks at verdicts and at
// whether a request ran more than once, never at texts, so that findings can be reworded.
func causesOf(outcomes []Outcome) (all []Cause) {
	left := map[string]bool{}
	for _, o := range outcomes {
		left[o.ID] = o.Verdict == Fail
	}
	for _, r := range roots() {
		c, ok := r.explains(outcomes, left)
		if !ok {
			continue
		}
		for _, id := range c.Cases {
			left[id] = false
		}
		all = append(all, c)
	}
	slices.SortStableFunc(all, func(a, b Cause) int { return len(b.Cases) - len(a.Cases) })
	return all
}

// explains returns the cause if the outcomes show it. left has the cases whose FAIL has no cause so far. A sign that
// was not played proves nothing either way; a sign that passed rules the cause out.
func (r root) explains(outcomes []Outcome, left map[string]bool) (c Cause, ok bool) {
	c.Text = r.text
	for _, o := range outcomes {
		isSign := slices.Contains(r.shownBy, o.ID)
		switch {
		case isSign && o.Verdict != NA && o.Verdict != Broken && !left[o.ID]:
			return c, false
		case slices.Contains(r.rerun, o.ID) && left[o.ID] && !o.ranAgain:
			return c, false
		case left[o.ID] && (isSign || r.mayTake(o.ID)):
			c.Cases = append(c.Cases, o.ID)
		}
	}
	for _, id := range r.shownBy {
		if left[id] {
			c.Begin = id
			break
		}
	}
	return c, c.Begin != "" && len(c.Cases) >= fewest
}

// mayTake reports whether a case may fail for this cause.
func (r root) mayTake(id string) bool {
	return (slices.Contains(r.takes, id) || slices.Contains(r.takes, id[:1])) && !slices.Contains(r.but, id)
}
