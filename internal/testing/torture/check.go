package torture

import (
	"fmt"
	"maps"
	"slices"
)

// rules are what the store was told of times, in microseconds, and how exactly its clock is known.
type rules struct {
	lease, keep, tolerance int64
	fencesAreClock         bool
	repeats                bool  // a call that is told "lost" may have taken effect before
	steps                  *int  // that the judge has taken
	cut                    *bool // the judge has not tried all orders of the calls
}

// history is what is known of one key.
type history struct {
	rules
	byFence map[int64]*held
	// saved are the checkpoints that were acknowledged, by the first fence of the record.
	saved map[int64][]event
	// takers are the owners that have claimed with TakeOver.
	takers map[string]bool
	found  []violation
}

// check returns what is wrong with a key's events: everything that the contract forbids and that can be proved from
// what the clients were told, in the order of the ticks and on the clock of the machine.
func (r rules) check(events []event) []violation {
	h := &history{rules: r, byFence: map[int64]*held{}, saved: map[int64][]event{}, takers: map[string]bool{}}
	for _, e := range events {
		if e.TakeOver {
			h.takers[e.Owner] = true
		}
		h.under(e.Fence).note(e)
		if e.acknowledged() && !e.Trying && e.Began.Newest > e.Fence {
			h.wrong(e, "acknowledged, although fence %d was there before", e.Began.Newest)
		}
	}
	h.checkFences()
	for _, held := range h.byFence {
		for _, e := range held.acks {
			if e.Op == "checkpoint" {
				h.saved[held.firstFence] = append(h.saved[held.firstFence], e)
			}
		}
	}
	for _, e := range events {
		h.checkAnswer(e)
	}
	return h.found
}

func (h *history) wrong(e event, format string, args ...any) {
	h.found = append(h.found, violation{
		key: e.Key, fence: e.Fence, at: e.Began.N,
		text: fmt.Sprintf("key %d, under %d: %s by %.8s at tick %d: ", e.Key, e.Fence, e.Op, e.Owner, e.Began.N) +
			fmt.Sprintf(format, args...),
	})
}

func (h *history) under(fence int64) *held {
	if h.byFence[fence] == nil {
		h.byFence[fence] = &held{rules: h.rules, fence: fence, owners: map[string]bool{}, bodies: map[string]bool{}}
	}
	return h.byFence[fence]
}

// checkFences looks at each fence alone, and at what each permits the next one.
func (h *history) checkFences() {
	var last *held
	for _, fence := range slices.Sorted(maps.Keys(h.byFence)) {
		next := h.byFence[fence]
		for _, p := range next.violations() {
			h.wrong(next.any(), "%s", p)
		}
		if len(next.owners) == 0 {
			continue
		}
		if last != nil {
			for _, p := range last.before(next, h.takers) {
				h.wrong(next.any(), "%s", p)
			}
		}
		last = next
	}
}

// checkAnswer looks at what a call was told of others' calls.
func (h *history) checkAnswer(e event) {
	held := h.byFence[e.Fence]
	switch {
	case e.acquired():
		for _, s := range h.saved[e.FirstFence] {
			if s.Ended.N < e.Began.N && !slices.Contains(e.Steps, s.Text) {
				h.wrong(e, "%s is not shown, although it was saved", s.Text)
			}
		}
	case e.Op == "claim" && e.Answer == "abandoned" && held.leaseBefore(e.Began.N) > e.Ended.At &&
		!held.triedBefore(e.Ended.At):
		h.wrong(e, "abandoned, although its lease runs")
	case e.Answer == "lost" && held.leaseBefore(e.Began.N) > e.Ended.At &&
		!slices.ContainsFunc(held.ends, func(try event) bool { return try.Began.N < e.Began.N }):
		h.wrong(e, "lost, although its lease runs")
	}
}
