package probe

import "slices"

// Cause is what several FAILs have in common. Once it is fixed most of them pass.
type Cause struct {
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

// roots are in order: a FAIL that one explains is not left for the next.
func roots() []root {
	return []root{
		{
			text: "the target does not carry out a request that has a key", shownBy: []string{"B01"},
			takes: []string{"B", "K", "M", "C", "F", "X", "H", "T", "G"},
		},
		{
			text:    "the API takes no notice of the key",
			shownBy: []string{"B02", "B03", "B07", "F08", "M02", "G01", "G03", "G04"},
			takes:   []string{"B", "K", "M", "C", "F", "X", "H", "T", "G"},
			but:     []string{"B01", "B04", "B05", "B06", "B09", "X02", "X03", "X05", "T05", "T06", "T07"},
			rerun:   []string{"B02", "G01"},
		},
		{
			text:    "an answer is not kept as it was given",
			shownBy: []string{"B11", "B02"}, takes: []string{"B", "K", "M", "C", "F", "X01", "X06", "H", "T"},
			but: []string{"B01", "B04", "B05", "B06", "B09"},
		},
		{
			text:    "a key does not keep requests apart that come at the same time",
			shownBy: []string{"C01", "G03"}, takes: []string{
				"C02", "C03", "C04", "C05", "C06", "C07", "C09", "F07",
				"F08", "F09", "G04",
			},
		},
		{
			text:    "the request of a retry is not compared with the first one",
			shownBy: []string{"M01", "G02"}, takes: []string{"M", "C06", "F02", "F03", "K06", "X04"},
			but: []string{"M11", "M12"},
		},
		{
			text: "keys are looked up before the caller is known", shownBy: []string{"X02"},
			takes: []string{"X01", "X03", "X04"},
		},
		{
			text: "the caller is not a part of the key", shownBy: []string{"X01", "G06"}, takes: []string{"X02", "X03", "X04"},
		},
		{
			text: "a client that hangs up takes the record of the work with it", shownBy: []string{"F07"},
			takes: []string{"F08", "F09", "C09"},
		},
		{
			text: "what the layer or a credential refused is kept as the answer", shownBy: []string{"F04"},
			takes: []string{"F05", "C05", "M02", "M13", "F12"},
		},
		{
			text: "keys do not outlive the process", shownBy: []string{"F11"}, takes: []string{"F10"},
		},
		{
			text:    "a key that cannot be read is not refused",
			shownBy: []string{"K04", "G05"}, takes: []string{"K05", "K06", "K08", "K09", "K10", "K11", "K12", "K13", "H07"},
		},
		{
			text: "long keys are cut", shownBy: []string{"K09"}, takes: []string{"K07", "K08"},
		},
	}
}

// fewest is how many FAILs can have something in common.
const fewest = 2

// causesOf finds what the FAILs of a run have in common, the cause of most of them first.
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

// explains is the cause if the outcomes show it; left are the cases whose FAIL has no cause so far.
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

func (r root) mayTake(id string) bool {
	return (slices.Contains(r.takes, id) || slices.Contains(r.takes, id[:1])) && !slices.Contains(r.but, id)
}
