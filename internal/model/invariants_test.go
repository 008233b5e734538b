package model

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe"
)

// invariant is a sentence of the contract about what callers are told, whatever a store keeps.
type invariant string

const (
	completedOnce  invariant = "at most one completion takes effect"
	answerStays    invariant = "no answer is replaced"
	answerWindow   invariant = "an answer is shown until Replay, and not after it"
	fencesGrow     invariant = "fences grow"
	endRemembered  invariant = "no acknowledged completion is lost"
	stepsShown     invariant = "no acknowledged step is lost or replaced"
	leaseRespected invariant = "no claim is made while the lease of another attempt runs"
	leaseKept      invariant = "the holder is not told that it has lost the key"
	notUnasked     invariant = "a key whose outcome is unknown is not run again unasked"
	sameRequest    invariant = "another request never gets a key that has a record"
	zombiesRefused invariant = "a call under a lost lease is refused"
	repeatable     invariant = "a call that is repeated adds nothing"
	freeIsFree     invariant = "a key without a record is free, and starts anew"
	lapsedIsOpen   invariant = "a key whose lease has run out is not in flight"
)

var invariants = []invariant{
	completedOnce, answerStays, answerWindow, fencesGrow, endRemembered, stepsShown, leaseRespected, leaseKept, notUnasked,
	sameRequest, zombiesRefused, repeatable, freeIsFree, lapsedIsOpen,
}

// seen is a world, and what callers have been told of it. A violation is a contradiction between the two.
type seen struct {
	World
	fence int64 // the greatest that was given out

	// What follows is about the record that callers know of, until it ends.
	known    bool
	request  retrysafe.Fingerprint
	holder   retrysafe.Lease // of the last claim
	keep     retrysafe.Retention
	since    time.Duration // the end of the lease, of the attempt, or when it was released
	steps    []retrysafe.StepResult
	released bool
	ended    bool
	result   retrysafe.Result
	begun    time.Duration // when a transaction of the holder's completed the key
}

func (s seen) forget() seen { return seen{World: s.World, fence: s.fence} }

func (s seen) pending() bool { return s.known && !s.ended && !s.released }
func (s seen) runs() bool    { return s.pending() && s.Now < s.since }

// holds reports whether l is the lease of an attempt that has not ended, as far as callers were told.
func (s seen) holds(l retrysafe.Lease) bool { return s.pending() && s.holder == l }

// violated is an error that names an invariant.
type violated struct {
	invariant
	how string
}

func (v violated) Error() string { return fmt.Sprintf("%s: %s", v.invariant, v.how) }

// do takes a step of the model and checks it against what callers were told before.
func (s seen) do(a Action) (next seen, err error) {
	before := s.World
	if s.known && s.Now >= s.since+s.keep.Key && s.Ending == nil {
		s = s.forget()
	}
	var answer Answer
	s.World, answer = before.Do(a)
	var broken invariant
	switch {
	case a.Verb == "claim":
		s, broken = s.claimed(a, answer.Claim)
	case a.Verb == "commit":
		s, broken = s.committed(before)
	case a.UnderLease():
		l := before.Leases[len(before.Leases)-1-a.Lease]
		if answer.Lost {
			broken = s.refused(a, l)
		} else {
			s, broken = s.accepted(a, l, len(before.Leases)-1-a.Lease)
		}
	}
	if broken == "" && a.Verb != "begin" && (a.Verb == "claim" || a.UnderLease()) {
		again, twice := s.Do(a)
		lease := answer.Claim.Verdict == twice.Claim.Verdict && answer.Claim.Lease == twice.Claim.Lease
		if !lease || answer.Lost != twice.Lost || again.Canonical() != s.Canonical() {
			broken = repeatable
		}
	}
	if broken != "" {
		return s, violated{broken, fmt.Sprintf("%v was answered %+v", a, answer)}
	}
	return s, nil
}

func (s seen) claimed(a Action, c retrysafe.Claim) (seen, invariant) {
	p := a.Params(s.Key)
	same := p.Fingerprint == s.request
	switch c.Verdict {
	case retrysafe.Acquired:
		return s.acquired(p, c)
	case retrysafe.Done:
		return s, s.shownDone(c.Record)
	}
	switch {
	case !s.known:
		return s, freeIsFree
	case s.ended:
		return s, endRemembered
	case p.Owner == s.holder.Owner && s.pending() && s.Ending == nil:
		return s, repeatable
	case c.Verdict == retrysafe.InFlight && !s.runs() && s.Ending == nil && (!s.released || same):
		return s, lapsedIsOpen
	case c.Verdict == retrysafe.Abandoned && (s.runs() || s.released):
		return s, leaseKept
	case c.Verdict == retrysafe.Abandoned && p.TakeOver && same:
		return s, lapsedIsOpen
	}
	return s, ""
}

func (s seen) acquired(p retrysafe.ClaimParams, c retrysafe.Claim) (seen, invariant) {
	again := c.Lease == s.holder && s.pending()
	switch {
	case again:
	case !s.known && (c.Record.Attempt != 1 || c.Record.FirstFence != c.Lease.Fence || len(c.Record.Steps) > 0):
		return s, freeIsFree
	case c.Lease.Fence <= s.fence:
		return s, fencesGrow
	case !s.known:
		s = s.forget()
		s.known, s.request = true, p.Fingerprint
	case s.ended:
		return s, endRemembered
	case s.runs():
		return s, leaseRespected
	case p.Owner == s.holder.Owner && s.pending():
		return s, repeatable
	case p.Fingerprint != s.request:
		return s, sameRequest
	case s.pending() && !p.TakeOver:
		return s, notUnasked
	}
	if !sameSteps(c.Record.Steps, s.steps) {
		return s, stepsShown
	}
	s.fence, s.holder, s.released = max(s.fence, c.Lease.Fence), c.Lease, false
	s.keep, s.since = p.Keep.WithDefaults(), s.Now+p.Lease
	return s, ""
}

func (s seen) shownDone(r retrysafe.Record) invariant {
	shown := s.Now < s.since+s.keep.Replay
	switch {
	case !s.known:
		return freeIsFree
	case !s.ended:
		return answerStays
	case shown != (len(r.Result.Body) > 0):
		return answerWindow
	case shown && !bytes.Equal(r.Result.Body, s.result.Body) || r.Result.Failed != s.result.Failed:
		return answerStays
	}
	return ""
}

// refused judges a call that was told that its lease is lost.
func (s seen) refused(a Action, l retrysafe.Lease) invariant {
	if s.holds(l) || a.Verb == "complete" && s.ended && s.holder == l || a.Verb == "release" && (!s.known || s.released) {
		return leaseKept
	}
	return ""
}

// accepted judges a call that was told that it is done.
func (s seen) accepted(a Action, l retrysafe.Lease, n int) (seen, invariant) {
	switch a.Verb {
	case "complete":
		if s.ended && s.holder == l {
			return s, "" // the first result stays, as claims will see
		}
		if !s.holds(l) {
			return s, completedOnce
		}
		s.ended, s.result, s.since, s.keep = true, a.Result(n), s.Now, a.Keep.WithDefaults()
		return s, ""
	case "release":
		if !s.known || s.released {
			return s, ""
		}
	}
	if !s.holds(l) {
		return s, zombiesRefused
	}
	switch a.Verb {
	case "extend":
		s.since = s.Now + a.For
	case "checkpoint":
		step := a.Step(n)
		if !slices.ContainsFunc(s.steps, func(o retrysafe.StepResult) bool { return o.Name == step.Name }) {
			s.steps = append(slices.Clip(s.steps), step)
		}
	case "release":
		if s.released, s.since = true, s.Now; len(s.steps) == 0 {
			s = s.forget()
		}
	case "begin":
		s.begun = s.Now
	}
	return s, ""
}

// committed judges a transaction that has the work's writes and the completion.
func (s seen) committed(before World) (seen, invariant) {
	e := before.Ending
	if !s.holds(retrysafe.Lease{Key: e.Key, Owner: e.Owner, Fence: e.Fence}) {
		return s, completedOnce
	}
	s.ended, s.result, s.since, s.keep = true, e.Result, s.begun, e.Keep
	return s, ""
}

func sameSteps(a, b []retrysafe.StepResult) bool {
	return slices.EqualFunc(a, b, func(a, b retrysafe.StepResult) bool {
		return a.Name == b.Name && bytes.Equal(a.Data, b.Data)
	})
}

// key is like Canonical, with what callers were told.
func (s seen) key() string {
	if s.known && s.Now >= s.since+s.keep.Key && s.Ending == nil {
		s = s.forget()
	}
	b := []byte(s.Canonical(s.fence, s.holder.Fence))
	if !s.known {
		return string(b)
	}
	b = append(b, s.holder.Owner[0], byte(len(s.steps)))
	b = fmt.Appendf(b, "%t%t", s.released, s.ended)
	b = append(append(b, s.request...), s.result.Body...)
	return string(appendTime(appendTime(appendTime(b, s.since-s.Now), s.keep.Key), s.begun-s.Now))
}
