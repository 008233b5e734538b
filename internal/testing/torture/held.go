package torture

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// held is what is known of one fence of a key: who had it and what was done under it.
type held struct {
	rules
	fence, firstFence int64
	key               int
	owners            map[string]bool
	leaseUntil        int64 // at least
	shownAt           int64 // when a client was first told of this fence; 0: never
	acks              []event
	ends              []event // tries of complete, release and lapse, in order
	completed         bool    // acknowledged
	bodies            map[string]bool
}

// note adds an event of this fence.
func (h *held) note(e event) {
	h.key = e.Key
	if e.Trying {
		if e.endsAttempt() {
			h.ends = append(h.ends, e)
		}
		return
	}
	if h.shownAt == 0 || e.Ended.At < h.shownAt {
		h.shownAt = e.Ended.At
	}
	switch {
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
	if e.acquired() || e.Answer == "ok" && e.Op == "extend" {
		h.leaseUntil = max(h.leaseUntil, h.runsUntil(e))
	}
}

// runsUntil is how long a lease that the call made or extended runs at least, on the clock of the machine.
func (r rules) runsUntil(e event) int64 { return e.Began.At + r.lease - r.tolerance }

// claimedBy is a time by which the claim that was given this fence had judged.
func (h *held) claimedBy() int64 {
	at := h.shownAt
	if at == 0 {
		at = math.MaxInt64
	}
	if h.fencesAreClock {
		at = min(at, h.fence+h.tolerance)
	}
	return at
}

func (h *held) any() event {
	if len(h.acks) > 0 {
		return h.acks[0]
	}
	return event{Op: "nothing", Key: h.key, Fence: h.fence}
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

// before says what forbids that the next fence was given out when it was. By the time at which a client was told of the
// next one, the attempt of this one may have tried to end. An abandoned key is taken over by an owner that asks for it.
func (h *held) before(next *held, takers map[string]bool) (all []string) {
	claimed := next.claimedBy()
	if left := h.knownUntil() - claimed; left > 0 && !takers[next.any().Owner] && !h.triedBefore(next.shownAt, "lapse") {
		all = append(all, fmt.Sprintf("claimed without TakeOver, although fence %d was kept for another %d µs", h.fence,
			left))
	}
	if h.leaseUntil > claimed && !h.triedBefore(next.shownAt) {
		all = append(all, fmt.Sprintf("claimed although the lease of fence %d ran for another %d µs", h.fence,
			h.leaseUntil-claimed))
	}
	if !h.completed {
		return all
	}
	for _, try := range h.ends {
		if try.Op != "complete" {
			continue
		}
		if until := try.Began.At + h.keep - h.tolerance; until > claimed {
			all = append(all, fmt.Sprintf("claimed although fence %d has completed, %d µs before it may", h.fence,
				until-claimed))
		}
		break
	}
	return all
}

// triedBefore reports whether a try to end the attempt, by another call than those, began no later than this.
func (h *held) triedBefore(at int64, but ...string) bool {
	return slices.ContainsFunc(h.ends, func(e event) bool { return e.Began.At <= at && !slices.Contains(but, e.Op) })
}

// knownUntil is until when the record of an attempt that has not ended is kept at least, even if its lease was ended at
// once.
func (h *held) knownUntil() (until int64) {
	for _, e := range h.acks {
		if e.Op == "claim" || e.Op == "extend" {
			until = max(until, e.Began.At+h.keep-h.tolerance)
		}
	}
	return until
}

// leaseBefore is until when the lease ran at least, as was known at a tick.
func (h *held) leaseBefore(n int64) (until int64) {
	for _, e := range h.acks {
		if (e.Op == "claim" || e.Op == "extend") && e.Ended.N < n {
			until = max(until, h.runsUntil(e))
		}
	}
	return until
}
