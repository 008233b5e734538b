package pgstore

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// event is a call that a worker made, as it saw it.
type event struct {
	Op     string // claim, extend, lapse, checkpoint, complete, release
	Key    int
	Owner  string
	Fence  int64  // of the lease; of a claim: of the record that it was shown
	Text   string // result or step's name
	Answer string // ok, lost; a claim's verdict; "": unknown
	// Began is before the call, Ended after it. Trying says that the call begins: it may never be heard of again.
	Began, Ended tick
	Trying       bool
	Clock        int64 // the worker's own, in microseconds

	// of claims
	FirstFence int64
	Steps      []string
	Replayable bool
}

func (e event) acquired() bool { return e.Op == "claim" && e.Answer == "acquired" }

// acknowledged reports whether the call was made under a lease and the store said that the lease was good.
func (e event) acknowledged() bool { return e.acquired() || e.Answer == "ok" && e.Op != "release" }

// held is what is known of one fence of a key: who had it and what was done under it.
type held struct {
	fence, firstFence int64
	owners            map[string]bool
	leaseUntil        int64 // at least, on the database's clock
	acks              []event
	ends              []event // tries of complete, release and lapse, in order
	completed         bool    // acknowledged
	bodies            map[string]bool
}

// check returns what is wrong with a key's history: everything that the contract forbids and that can be proved from
// what the workers were told, in the database's own order and on its own clock.
func check(history []event) (violations []string) {
	wrong := func(e event, format string, args ...any) {
		violations = append(violations, fmt.Sprintf("key %d, under %d: %s by %.8s at tick %d: ", history[0].Key,
			e.Fence, e.Op, e.Owner, e.Began.N)+
			fmt.Sprintf(format, args...))
	}
	byFence := map[int64]*held{}
	at := func(fence int64) *held {
		if byFence[fence] == nil {
			byFence[fence] = &held{fence: fence, owners: map[string]bool{}, bodies: map[string]bool{}}
		}
		return byFence[fence]
	}
	for _, e := range history {
		h := at(e.Fence)
		h.note(e)
		if e.acknowledged() && !e.Trying && e.Began.Newest > e.Fence {
			wrong(e, "acknowledged, although fence %d was there before", e.Began.Newest)
		}
	}
	fences := slices.Sorted(maps.Keys(byFence))
	var last *held
	for _, fence := range fences {
		h := byFence[fence]
		for _, p := range h.violations() {
			wrong(h.any(), "%s", p)
		}
		if len(h.owners) == 0 {
			continue
		}
		if last != nil {
			for _, p := range last.before(h) {
				wrong(h.any(), "%s", p)
			}
		}
		last = h
	}
	for _, e := range history {
		h := byFence[e.Fence]
		switch {
		case e.acquired():
			for _, step := range missing(e, byFence) {
				wrong(e, "%s is not shown, although it was saved", step)
			}
		case e.Op == "claim" && e.Answer == "abandoned" && h.leaseBefore(e.Began.N) > e.Ended.At &&
			!h.triedBefore(e.Ended.At):
			wrong(e, "abandoned, although its lease runs")
		case e.Answer == "lost" && h.leaseBefore(e.Began.N) > e.Ended.At &&
			!slices.ContainsFunc(h.ends, func(try event) bool { return try.Began.N < e.Began.N }):
			wrong(e, "lost, although its lease runs")
		}
	}
	return violations
}

// note adds an event of this fence.
func (h *held) note(e event) {
	ends := e.Op == "complete" || e.Op == "release" || e.Op == "lapse"
	switch {
	case e.Trying && ends:
		h.ends = append(h.ends, e)
	case e.Trying:
	case e.acquired():
		h.firstFence = e.FirstFence
		h.owners[e.Owner] = true
		h.acks = append(h.acks, e)
	case e.Op == "claim" && e.Answer == "done" && e.Replayable:
		h.bodies[e.Text] = true
	case e.Answer == "ok":
		h.acks = append(h.acks, e)
		h.completed = h.completed || e.Op == "complete"
	}
	if !e.Trying && (e.acquired() || e.Answer == "ok" && e.Op == "extend") {
		h.leaseUntil = max(h.leaseUntil, e.Began.At+tortureLease.Microseconds())
	}
}

func (h *held) any() event {
	if len(h.acks) > 0 {
		return h.acks[0]
	}
	return event{Op: "nothing", Fence: h.fence}
}

// violations are those that concern this fence alone.
func (h *held) violations() (all []string) {
	if len(h.owners) > 1 {
		all = append(all, fmt.Sprintf("%d owners have this fence", len(h.owners)))
	}
	if len(h.bodies) > 1 {
		all = append(all, fmt.Sprintf("its result has changed: %q", slices.Sorted(maps.Keys(h.bodies))))
	}
	first, kept := h.firstResult()
	for body := range h.bodies {
		if !strings.HasPrefix(body, fmt.Sprint(h.fence, " ")) {
			all = append(all, fmt.Sprintf("its result is another's: %q", body))
		} else if kept && body != first {
			all = append(all, fmt.Sprintf("its result is %q, although %q was acknowledged first", body, first))
		}
	}
	return all
}

// firstResult is that of the first Complete, if it was acknowledged.
func (h *held) firstResult() (string, bool) {
	for _, try := range h.ends {
		if try.Op == "complete" {
			return try.Text, slices.ContainsFunc(h.acks,
				func(e event) bool { return e.Op == "complete" && e.Began.N == try.Began.N })
		}
	}
	return "", false
}

// before says what forbids that the next fence was given out when it was. A fence is no smaller than the clock by
// which a claim judged; by the time at which its caller knew, this one may have tried to end.
func (h *held) before(next *held) (all []string) {
	if h.leaseUntil > next.fence && !h.triedBefore(next.any().Ended.At) {
		all = append(all, fmt.Sprintf("claimed although the lease of fence %d ran for another %d µs", h.fence,
			h.leaseUntil-next.fence))
	}
	if !h.completed {
		return all
	}
	for _, try := range h.ends {
		if try.Op == "complete" {
			if until := try.Began.At + tortureKeep.Key.Microseconds(); until > next.fence {
				all = append(all, fmt.Sprintf("claimed although fence %d has completed, %d µs before it may", h.fence,
					until-next.fence))
			}
			break
		}
	}
	return all
}

// triedBefore reports whether a try to end the attempt began no later than this.
func (h *held) triedBefore(at int64) bool {
	return slices.ContainsFunc(h.ends, func(e event) bool { return e.Began.At <= at })
}

// leaseBefore is until when the lease ran at least, as was known at a tick.
func (h *held) leaseBefore(n int64) (until int64) {
	for _, e := range h.acks {
		if (e.Op == "claim" || e.Op == "extend") && e.Ended.N < n {
			until = max(until, e.Began.At+tortureLease.Microseconds())
		}
	}
	return until
}

// missing are the steps that were acknowledged before the claim began, in the record that it was given, and not shown.
func missing(claim event, byFence map[int64]*held) (steps []string) {
	for _, h := range byFence {
		if h.firstFence != claim.FirstFence {
			continue
		}
		for _, e := range h.acks {
			if e.Op == "checkpoint" && e.Ended.N < claim.Began.N && !slices.Contains(claim.Steps, e.Text) {
				steps = append(steps, e.Text)
			}
		}
	}
	return steps
}
