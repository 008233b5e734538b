package demo

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Report is how the demo went.
type Report struct {
	// Right: every intent was charged exactly once, and every answer was as it should be.
	Right  bool          `json:"right"`
	Scenes []SceneReport `json:"scenes"`
	// Total of the scenes.
	Total SceneReport `json:"total"`
	// Wrong says in words what is not right.
	Wrong []string `json:"wrong"`
	// LeftOut says which scenes could not be played, and what they need.
	LeftOut string `json:"left_out,omitempty"`
}

// SceneReport counts what happened in one scene. Charges are rows in the API's ledger; Expected is how many intents
// there were.
type SceneReport struct {
	Name     string `json:"name"`
	Requests int    `json:"requests"`
	Lost     int    `json:"lost"`
	Replays  int    `json:"replays"`
	Refusals int    `json:"refusals"`
	Charges  int    `json:"charges"`
	Expected int    `json:"expected"`
	Right    bool   `json:"right"`
}

// judge counts the rows of one scene, and says what is wrong with them.
func (a *act) judge(ctx context.Context, name string) (SceneReport, []string, error) {
	rows, err := a.rows(ctx)
	if err != nil {
		return SceneReport{}, nil, err
	}
	r := SceneReport{
		Name: name, Lost: a.count[lost], Replays: a.count[replayed], Refusals: a.count[refused], Expected: len(a.intents),
	}
	for _, n := range a.count {
		r.Requests += n
	}
	var wrong []string
	for _, c := range a.intents {
		n, amounts := c.in(rows)
		r.Charges += n
		switch {
		case n != 1:
			wrong = append(wrong, fmt.Sprintf("order %s of %s: %s; expected 1", c.order, c.customer, charges(n)))
		case amounts != c.amount:
			wrong = append(wrong, fmt.Sprintf("order %s of %s: amount %d; expected %d", c.order, c.customer, amounts, c.amount))
		}
	}
	wrong = append(wrong, slices.Compact(a.wrong)...)
	r.Right = len(wrong) == 0
	return r, wrong, nil
}

// in counts the rows of this intent, and sums up their amounts.
func (c charge) in(rows []row) (n, amount int) {
	for _, r := range rows {
		if r.Customer == c.customer && r.Order == c.order {
			n, amount = n+1, amount+r.Amount
		}
	}
	return n, amount
}

// add takes a scene into the report.
func (r *Report) add(s SceneReport, wrong []string) {
	r.Scenes = append(r.Scenes, s)
	for _, w := range wrong {
		r.Wrong = append(r.Wrong, fmt.Sprintf("scene %d: %s", len(r.Scenes), w))
	}
	t := &r.Total
	t.Requests += s.Requests
	t.Lost += s.Lost
	t.Replays += s.Replays
	t.Refusals += s.Refusals
	t.Charges += s.Charges
	t.Expected += s.Expected
}

// close counts all rows once more: there must be none that no scene has accounted for.
func (r *Report) close(rows int) {
	if rows != r.Total.Charges {
		r.Wrong = append(r.Wrong, fmt.Sprintf("the ledger has %s that no client sent", charges(rows-r.Total.Charges)))
	}
	r.Right = len(r.Wrong) == 0
	r.Total.Name, r.Total.Right = "Sum", r.Right
}

const tableRow = "%-2s %-24s %9v %5v %8v %9v  %9s  %s"

// show prints the table and the verdict.
func (r *Report) show(s *screen) {
	s.title("What happened")
	s.line(strings.TrimRight(fmt.Sprintf(tableRow, " ", "", "requests", "lost", "replays", "refusals", "charges", ""),
		" "))
	for i, c := range r.Scenes {
		s.line(c.line(s, fmt.Sprint(i+1)))
	}
	s.line(r.Total.line(s, " "))
	s.line("")
	s.line(s.paint(dim, "Charges are rows in the API's database. Lost: no answer reached the client."))
	s.line(s.paint(dim, "Refusals: 409 in flight, 422 another request, 500 outcome unknown, 503 not run."))
	s.line("")
	if r.Right {
		s.line(s.paint(green, fmt.Sprintf("Every intent was charged exactly once: %d intents, %d rows in the ledger.",
			r.Total.Expected, r.Total.Charges)))
		return
	}
	s.line(s.paint(red, fmt.Sprintf("WRONG: %d intents, %d rows in the ledger.", r.Total.Expected, r.Total.Charges)))
	for _, w := range r.Wrong {
		for i, l := range wrap(strings.Fields(w), " ", columns-4) {
			s.line([]string{"  - ", "    "}[min(i, 1)] + l)
		}
	}
}

func (c SceneReport) line(s *screen, number string) string {
	mark := s.paint(green, "ok")
	if !c.Right {
		mark = s.paint(red, "WRONG")
	}
	return fmt.Sprintf(tableRow, number, c.Name, c.Requests, c.Lost, c.Replays, c.Refusals,
		fmt.Sprintf("%d of %d", c.Charges, c.Expected), mark)
}
