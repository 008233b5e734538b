package model

import (
	"slices"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Rule is one condition of the contract that the model can do without, so that a test can show which invariant needs it.
type Rule string

// The conditions, in the order in which the model asks for them.
const (
	expires       Rule = "a record past its Key is no record"
	runningStays  Rule = "a record whose lease runs does not expire"
	sameOwner     Rule = "a claim by the owner that holds the key is a repetition"
	endedStays    Rule = "an ended key is done"
	leaseExcludes Rule = "a running lease keeps others out"
	leaseEnds     Rule = "a lease runs out"
	endExcludes   Rule = "a key whose end is being written is in flight"
	sameResumes   Rule = "a released key is resumed by the same request"
	takesOver     Rule = "a take-over is asked for"
	sameTakesOver Rule = "a take-over is by the same request"
	fenceGrows    Rule = "a fence is greater than the one before it"
	fenceIsClock  Rule = "the fence of a new record is at least the clock"
	stepsStay     Rule = "saved steps survive the attempt"
	keepReplaced  Rule = "each claim brings its own Keep"
	extendFenced  Rule = "Extend compares the lease"
	saveFenced    Rule = "Checkpoint compares the lease"
	endFenced     Rule = "Complete compares the lease"
	freeFenced    Rule = "Release compares the lease"
	extendOpen    Rule = "Extend needs an attempt that has not ended"
	saveOpen      Rule = "Checkpoint needs an attempt that has not ended"
	freeOpen      Rule = "Release needs an attempt that has not ended"
	endUnreleased Rule = "Complete needs an attempt that was not released"
	firstStep     Rule = "the first result of a step stays"
	firstResult   Rule = "the first result of an attempt stays"
	keepOfEnd     Rule = "the Retention given to Complete counts, from then on"
	stepsHold     Rule = "a key released with steps keeps its record"
	replayEnds    Rule = "after Replay an answer is not shown"
	sweepPending  Rule = "Sweep keeps a key that has not ended until its Key has passed"
	sweepEnded    Rule = "Sweep keeps an ended key until its Key has passed"
	sweepFence    Rule = "Sweep keeps a fence until the clock has passed it"
	endLocks      Rule = "a transaction that completes a key locks it until its end"
)

// Rules are all of them.
var Rules = []Rule{
	expires, runningStays, sameOwner, endedStays, leaseExcludes, leaseEnds, endExcludes, sameResumes, takesOver, sameTakesOver,
	fenceGrows, fenceIsClock, stepsStay, keepReplaced, extendFenced, saveFenced, endFenced, freeFenced, extendOpen,
	saveOpen, freeOpen, endUnreleased, firstStep, firstResult, keepOfEnd, stepsHold, replayEnds, sweepPending, sweepEnded, sweepFence,
	endLocks,
}

// State is all that a store knows of one key. A State is a value: no method changes the bytes that another State has.
type State struct {
	// Now is the store's clock.
	Now time.Duration
	// Records of the key, the newest first. The others have ended, and are kept for Inspect.
	Records []Record
	// Fence is the greatest that was given out, as far as the store remembers it.
	Fence int64
	// Ending is the newest record as a transaction of another process has completed it, and not committed. Nil: none has.
	Ending *Record
	// Without is the rule that the model does without. "" for the contract.
	Without Rule
}

// Record is a retrysafe.Record whose times are instants.
type Record struct {
	retrysafe.Record
	Owner   retrysafe.Owner
	Claimed time.Duration // for the first time
	// End is when the lease ends; of a released or an ended record, when that was. Keep counts from it.
	End  time.Duration
	Keep retrysafe.Retention
}

// holds reports whether a condition is met or the model does without it.
func (s State) holds(r Rule, met bool) bool { return met || s.Without == r }

// runs reports whether the lease of r runs.
func (s State) runs(r Record) bool {
	return r.State == retrysafe.Pending && (s.Now < r.End || s.Without == leaseEnds)
}

// live returns the record that takes part in claims. A record past its Key is no record.
func (s State) live() (r Record, ok bool) {
	if len(s.Records) == 0 {
		return r, false
	}
	r = s.Records[0]
	if s.Now < r.End+r.Keep.Key || s.Without == expires {
		return r, s.Without != runningStays || s.Now < r.Claimed+r.Keep.Key
	}
	return r, false
}

// with returns s with r as its newest record, in the place of n records.
func (s State) with(n int, r ...Record) State {
	s.Records = append(r, s.Records[n:]...)
	return s
}

// Claim is Store.Claim. least is the smallest fence that a store may choose for a new claim, which may choose a larger
// one; 0 if there is no such choice.
func (s State) Claim(p retrysafe.ClaimParams, least int64) (State, retrysafe.Claim) {
	r, there := s.live()
	same := there && r.Fingerprint == p.Fingerprint
	verdict := retrysafe.Acquired
	switch held := there && r.State == retrysafe.Pending && r.Owner == p.Owner; {
	case s.Ending != nil && s.Without != endExcludes:
		verdict = retrysafe.InFlight
	case !there:
	case held && s.Without != sameOwner:
	case r.State.Ended() && s.Without != endedStays:
		verdict = retrysafe.Done
	case s.runs(r) && s.Without != leaseExcludes:
		verdict = retrysafe.InFlight
	case r.State == retrysafe.Released && !s.holds(sameResumes, same):
		verdict = retrysafe.InFlight
	case r.State == retrysafe.Pending && (!s.holds(takesOver, p.TakeOver) || !s.holds(sameTakesOver, same)):
		verdict = retrysafe.Abandoned
	}
	if verdict != retrysafe.Acquired {
		return s, retrysafe.Claim{Verdict: verdict, Record: s.shown(r)}
	}
	s, r = s.acquire(r, there, p, least)
	return s, retrysafe.Claim{
		Verdict: verdict, Record: s.shown(r), Lease: retrysafe.Lease{Key: p.Key, Owner: r.Owner, Fence: r.Fence},
	}
}

// acquire gives the key to p.Owner: under the fence that it has, or under a new one.
func (s State) acquire(r Record, there bool, p retrysafe.ClaimParams, least int64) (State, Record) {
	n := 1
	if !there {
		// A record that has not ended leaves nothing behind. One that has is kept for Inspect.
		if len(s.Records) == 0 || s.Records[0].State.Ended() {
			n = 0
		}
		r = Record{Record: retrysafe.Record{Key: p.Key, Fingerprint: p.Fingerprint}, Claimed: s.Now, Keep: p.Keep}
		if s.Without != fenceIsClock {
			least = max(least, s.Now.Microseconds())
		}
	}
	if r.State != retrysafe.Pending || r.Owner != p.Owner {
		if s.Without != fenceGrows || !there {
			s.Fence = max(s.Fence+1, least)
		}
		r.State, r.Owner, r.Fence = retrysafe.Pending, p.Owner, s.Fence
		r.Result = retrysafe.Result{}
		if r.Attempt++; r.Attempt == 1 {
			r.FirstFence = r.Fence
		} else if s.Without == stepsStay {
			r.Steps = nil
		}
	}
	if s.Without != keepReplaced {
		r.Keep = p.Keep
	}
	r.Keep, r.End = r.Keep.WithDefaults(), s.Now+p.Lease
	return s.with(n, r), r
}

// under returns the live record if l is the lease of its attempt, which has not ended.
func (s State) under(l retrysafe.Lease, fenced, open Rule) (r Record, ok bool) {
	r, there := s.live()
	return r, there && s.holds(open, r.State == retrysafe.Pending) && s.holds(fenced, r.has(l))
}

func (r Record) has(l retrysafe.Lease) bool { return r.Owner == l.Owner && r.Fence == l.Fence }

// Extend is Store.Extend. lost says that it returns ErrLeaseLost, as it does of the other calls.
func (s State) Extend(l retrysafe.Lease, d time.Duration) (next State, lost bool) {
	r, ok := s.under(l, extendFenced, extendOpen)
	if !ok {
		return s, true
	}
	r.State, r.End = retrysafe.Pending, s.Now+d
	return s.with(1, r), false
}

// Checkpoint is Store.Checkpoint.
func (s State) Checkpoint(l retrysafe.Lease, step retrysafe.StepResult) (next State, lost bool) {
	r, ok := s.under(l, saveFenced, saveOpen)
	if !ok {
		return s, true
	}
	saved := slices.IndexFunc(r.Steps, func(o retrysafe.StepResult) bool { return o.Name == step.Name })
	switch {
	case saved < 0:
		r.Steps = append(slices.Clip(r.Steps), step)
	case s.Without == firstStep:
		r.Steps = slices.Clone(r.Steps)
		r.Steps[saved] = step
	}
	return s.with(1, r), false
}

// Complete is Store.Complete.
func (s State) Complete(l retrysafe.Lease, result retrysafe.Result, keep retrysafe.Retention) (State, bool) {
	r, there := s.live()
	switch {
	case !there, !s.holds(endFenced, r.has(l)), r.State == retrysafe.Released && s.Without != endUnreleased:
		return s, true
	case r.State.Ended() && s.Without != firstResult:
		return s, false
	}
	return s.with(1, s.ended(r, result, keep)), false
}

func (s State) ended(r Record, result retrysafe.Result, keep retrysafe.Retention) Record {
	r.State, r.Result, r.End = result.State(), result, s.Now
	if s.Without != keepOfEnd {
		r.Keep = keep.WithDefaults()
	}
	return r
}

// Release is Store.Release.
func (s State) Release(l retrysafe.Lease) (next State, lost bool) {
	r, there := s.live()
	switch {
	case !there, r.State == retrysafe.Released:
		return s, false // no attempt has the key
	case !s.holds(freeOpen, r.State == retrysafe.Pending), !s.holds(freeFenced, r.has(l)):
		return s, true
	case len(r.Steps) == 0 || s.Without == stepsHold:
		return s.with(1), false
	}
	r.State, r.End = retrysafe.Released, s.Now
	return s.with(1, r), false
}

// BeginComplete completes the attempt in a transaction of another process, which also has the work's own writes. It
// takes effect with Commit. Until then the record is locked: claims are told that the key is in flight, and all other
// calls wait, so that none is made.
func (s State) BeginComplete(l retrysafe.Lease, result retrysafe.Result, keep retrysafe.Retention) (State, bool) {
	r, there := s.live()
	if !there || !r.has(l) || r.State != retrysafe.Pending {
		return s, true
	}
	r = s.ended(r, result, keep)
	s.Ending = &r
	return s, false
}

// Locked reports whether calls other than Claim, Commit and Rollback wait.
func (s State) Locked() bool { return s.Ending != nil && s.Without != endLocks }

// Commit ends the transaction of BeginComplete, with the completion and the work's own writes.
func (s State) Commit() State {
	r := *s.Ending
	s.Ending = nil
	return s.with(min(1, len(s.Records)), r)
}

// Rollback ends the transaction of BeginComplete without effect, as a crash of its process does.
func (s State) Rollback() State {
	s.Ending = nil
	return s
}

// Pass lets time pass.
func (s State) Pass(d time.Duration) State {
	s.Now += d
	return s
}

// Sweep is Sweeper.Sweep without a limit.
func (s State) Sweep() State {
	kept := make([]Record, 0, len(s.Records))
	for i, r := range s.Records {
		_, live := s.live()
		needed, early := i == 0 && live || s.audited(r), sweepPending
		if r.State.Ended() {
			early = sweepEnded
		}
		if needed && s.Without != early {
			kept = append(kept, r)
		}
	}
	if s.Records = kept; len(kept) == 0 && (s.Fence < s.Now.Microseconds() || s.Without == sweepFence) {
		s.Fence = 0
	}
	return s
}

// audited reports whether Inspect shows a record that takes no part in claims.
func (s State) audited(r Record) bool { return r.State.Ended() && s.Now < r.End+r.Keep.Audit }

// Inspect is Inspector.Inspect.
func (s State) Inspect() (all []retrysafe.Record) {
	for i, r := range s.Records {
		_, live := s.live()
		if live = i == 0 && live; !live && !s.audited(r) {
			continue
		}
		v := s.left(r)
		if r.State.Ended() && v.AuditLeft == 0 {
			v = withoutContent(v)
			v.Steps = nil
		}
		all = append(all, v)
	}
	return all
}

// shown returns r as Claim shows it: with its answer while that may be replayed, and without steps once it has ended.
func (s State) shown(r Record) retrysafe.Record {
	v := s.left(r)
	if r.State.Ended() {
		v.Steps = nil
		if v.ReplayLeft == 0 && s.Without != replayEnds {
			v = withoutContent(v)
		}
	}
	return v
}

func withoutContent(r retrysafe.Record) retrysafe.Record {
	r.Result.Meta, r.Result.Body = nil, nil
	return r
}

// left returns r with durations for its instants.
func (s State) left(r Record) retrysafe.Record {
	v := r.Record
	v.Age = s.Now - r.Claimed
	if s.runs(r) {
		v.LeaseLeft = r.End - s.Now
		return v
	}
	if r.State != retrysafe.Pending {
		v.EndedAge = s.Now - r.End
	}
	v.ReplayLeft = max(0, r.End+r.Keep.Replay-s.Now)
	v.KeyLeft = max(0, r.End+r.Keep.Key-s.Now)
	v.AuditLeft = max(0, r.End+r.Keep.Audit-s.Now)
	return v
}
