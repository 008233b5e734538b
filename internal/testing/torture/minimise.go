package torture

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// minimise returns the few answers of a history that contradict each other: no order of the calls explains them. It
// takes out calls that could not explain the others: those that change nothing, and heartbeats, without which a lease
// only ends earlier. Then it forgets answers, which permits more orders. So what is left needs no proof of its own. It
// returns nothing if the judge finds nothing wrong with the history.
func (r rules) minimise(events []event) (answers []event) {
	events = slices.Clone(events)
	isWrong := func(less []event) bool {
		wrong, sure := r.judge(less)
		return sure && len(wrong) > 0
	}
	if !isWrong(events) {
		return nil
	}
	late := time.Now().Add(minimiseFor)
	// shrink takes out what drop says of as many events as it can, in parts that get smaller.
	shrink := func(drop func(event) bool) {
		for size := len(events); size > 0; size /= 2 {
			for i := 0; i < len(events) && time.Now().Before(late); {
				end := min(i+size, len(events))
				part := slices.DeleteFunc(slices.Clone(events[i:end]), drop)
				less := slices.Concat(events[:i], part, events[end:])
				if len(less) < len(events) && isWrong(less) {
					events, end = less, i+len(part)
				}
				i = end
			}
		}
	}
	answered := map[int64]event{}
	for _, e := range events {
		if !e.Trying {
			answered[e.Began.N] = e
		}
	}
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.Began.N, b.Began.N) }) // calls stay whole
	shrink(func(e event) bool {
		a, ok := answered[e.Began.N]
		return ok && a.Answer != "" && (a.Op == "extend" || a.Op == "claim" && !a.acquired())
	})
	shrink(func(e event) bool { return !e.Trying })
	return slices.DeleteFunc(events, func(e event) bool { return e.Trying })
}

// minimiseFor bounds the time for one history.
const minimiseFor = 20 * time.Second

// draw shows calls, one a line, from their beginning to their end.
func draw(calls []event) string {
	const width = 50
	var moments []int64
	for _, e := range calls {
		moments = append(moments, e.Began.N, e.Ended.N)
	}
	slices.Sort(moments)
	column := func(n int64) int {
		i, _ := slices.BinarySearch(moments, n)
		return i * (width - 1) / max(1, len(moments)-1)
	}
	var b strings.Builder
	for _, e := range calls {
		from, to := column(e.Began.N), column(e.Ended.N)
		line := strings.Repeat(" ", from) + "├" + strings.Repeat("─", max(0, to-from-1)) + "┤"
		fmt.Fprintf(&b, "%-*s %s by %.6s", width+1, line, e.Op, e.Owner)
		if e.Op == "claim" && e.TakeOver {
			b.WriteString(" taking over")
		}
		fmt.Fprintf(&b, ": %s, fence %d %s %v\n", cmp.Or(e.Answer, "unknown"), e.Fence, e.Text, e.Steps)
	}
	return b.String()
}

// contradiction draws the answers that contradict each other where a violation was found.
func (r *run) contradiction(v violation) string {
	answers := r.rules().minimise(r.events[v.key])
	if len(answers) == 0 {
		return ""
	}
	return fmt.Sprintf("%d answers of %d events contradict each other:\n%s", len(answers), len(r.events[v.key]),
		draw(answers))
}
