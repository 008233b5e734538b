package model

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Action is a call, or an event, that a trace has. It names leases and owners by number, so that a store can be asked
// the same.
type Action struct {
	// Verb is claim, extend, checkpoint, complete, release, begin (BeginComplete), commit, rollback, pass or sweep.
	Verb string
	// Owner is the number of the caller that claims. Other says that it claims for another request than the rest do.
	Owner    int
	Other    bool
	TakeOver bool
	// Lease counts the leases that were given out, from the latest: 0.
	Lease int
	// For is the lease of a claim, what Extend is given, or how much time passes.
	For  time.Duration
	Keep retrysafe.Retention
	// Text names a step, and is a result.
	Text string
}

func (a Action) String() string {
	switch a.Verb {
	case "claim":
		return fmt.Sprintf("claim by owner %d for %v, keep %v, another request %v, take over %v", a.Owner, a.For, a.Keep,
			a.Other, a.TakeOver)
	case "extend":
		return fmt.Sprintf("extend lease -%d by %v", a.Lease, a.For)
	case "checkpoint":
		return fmt.Sprintf("checkpoint %q under lease -%d", a.Text, a.Lease)
	case "complete", "begin":
		return fmt.Sprintf("%s lease -%d with %q, keep %v", a.Verb, a.Lease, a.Text, a.Keep)
	case "release":
		return fmt.Sprintf("release lease -%d", a.Lease)
	case "pass":
		return fmt.Sprintf("let %v pass", a.For)
	}
	return a.Verb
}

// UnderLease reports whether the action is a call under a lease.
func (a Action) UnderLease() bool {
	return slices.Contains([]string{"extend", "checkpoint", "complete", "release", "begin"}, a.Verb)
}

// Params are those of a claim.
func (a Action) Params(k retrysafe.Key) retrysafe.ClaimParams {
	p := retrysafe.ClaimParams{
		Key: k, Fingerprint: "raw1:one", Owner: retrysafe.Owner{byte(a.Owner)}, Lease: a.For, Keep: a.Keep,
		TakeOver: a.TakeOver,
	}
	if a.Other {
		p.Fingerprint = "raw1:two"
	}
	return p
}

// Step is that of a checkpoint under the n-th lease. Its data say so, so that the first one can be recognized.
func (a Action) Step(n int) retrysafe.StepResult {
	return retrysafe.StepResult{Name: a.Text, Data: fmt.Appendf(nil, "%s of lease %d", a.Text, n)}
}

// Result is that of a completion under the n-th lease. It has a value in each field but Omitted.
func (a Action) Result(n int) retrysafe.Result {
	body := fmt.Appendf(nil, "%s of lease %d", a.Text, n)
	return retrysafe.Result{Failed: a.Text == "no", Code: 201, Meta: append([]byte("meta of "), body...), Body: body}
}

// Answer is what a call is told.
type Answer struct {
	Claim retrysafe.Claim
	Lost  bool // the call returned ErrLeaseLost
}

// World is a key, and the leases of it that were given out. Any of them may be used at any time: by an attempt that
// runs, by one that was paused and continues, and by a call that its caller has given up and that arrives late. A
// caller that lost an answer repeats its call; one that crashed makes no more.
type World struct {
	State
	Key    retrysafe.Key
	Leases []retrysafe.Lease
}

// Do is one step of the model.
func (w World) Do(a Action) (World, Answer) {
	var answer Answer
	var l retrysafe.Lease
	n := len(w.Leases) - 1 - a.Lease
	if a.UnderLease() {
		l = w.Leases[n]
	}
	switch s := w.State; a.Verb {
	case "claim":
		w.State, answer.Claim = s.Claim(a.Params(w.Key), 0)
		if l := answer.Claim.Lease; answer.Claim.Verdict == retrysafe.Acquired && !slices.Contains(w.Leases, l) {
			w.Leases = append(slices.Clip(w.Leases), l)
		}
	case "extend":
		w.State, answer.Lost = s.Extend(l, a.For)
	case "checkpoint":
		w.State, answer.Lost = s.Checkpoint(l, a.Step(n))
	case "complete":
		w.State, answer.Lost = s.Complete(l, a.Result(n), a.Keep)
	case "release":
		w.State, answer.Lost = s.Release(l)
	case "begin":
		w.State, answer.Lost = s.BeginComplete(l, a.Result(n), a.Keep)
	case "commit":
		w.State = s.Commit()
	case "rollback":
		w.State = s.Rollback()
	case "pass":
		w.State = s.Pass(a.For)
	case "sweep":
		w.State = s.Sweep()
	}
	return w, answer
}

// Scope bounds what is explored.
type Scope struct {
	Owners, Leases, Steps int  // so many owners, leases and names of steps
	Results               int  // so many results of each attempt
	Transactions          bool // attempts complete in a transaction of another process too
	// Short says that a claim may ask for a short Keep, too, and a completion for a short one.
	Short bool
}

// Stores are the scopes whose transitions are replayed against every store.
var Stores = []Scope{
	{Owners: 2, Leases: 1, Steps: 2, Results: 2},
	{Owners: 2, Leases: 2, Steps: 1, Results: 1},
}

// The times of a scope. Time passes in whole minutes, and leases and windows end 20 seconds after one, so that no
// deadline falls between the moment when a store looks at its clock and the moment when the model does.
const (
	tick  = 20 * time.Second
	lease = 5*time.Minute + tick
	pass  = 6 * time.Minute
)

var (
	long  = retrysafe.Retention{Replay: 5*time.Minute + tick, Key: 11*time.Minute + tick, Audit: 11*time.Minute + tick}
	short = retrysafe.Retention{Replay: 5*time.Minute + tick, Key: 5*time.Minute + tick, Audit: 5*time.Minute + tick}
)

// Actions returns what may happen next. A new owner is the next one, because one is like another.
func (s Scope) Actions(w World) []Action {
	all := []Action{{Verb: "pass", For: pass}}
	keeps := []retrysafe.Retention{long}
	if s.Short {
		keeps = append(keeps, short)
	}
	owners := 0
	for _, l := range w.Leases {
		owners = max(owners, int(l.Owner[0])+1)
	}
	held, there := w.live()
	for owner := range min(owners+1, s.Owners) {
		for _, takeOver := range []bool{false, true} {
			for _, other := range []bool{false, true} {
				a := Action{Verb: "claim", Owner: owner, Other: other, TakeOver: takeOver, For: lease}
				p := a.Params(w.Key)
				if there && held.State == retrysafe.Pending && held.Owner == p.Owner && held.Fingerprint != p.Fingerprint {
					continue // an owner is one attempt, which has one request
				}
				for _, a.Keep = range keeps {
					all = append(all, a)
				}
			}
		}
	}
	if w.Ending != nil {
		all = append(all, Action{Verb: "commit"}, Action{Verb: "rollback"})
	}
	if w.Locked() {
		return all
	}
	all = append(all, Action{Verb: "sweep"})
	for i := range w.Leases {
		all = append(all, Action{Verb: "extend", Lease: i, For: lease}, Action{Verb: "extend", Lease: i},
			Action{Verb: "release", Lease: i})
		for _, name := range []string{"a", "b"}[:s.Steps] {
			all = append(all, Action{Verb: "checkpoint", Lease: i, Text: name})
		}
		for _, text := range []string{"yes", "no"}[:s.Results] {
			all = append(all, Action{Verb: "complete", Lease: i, Text: text, Keep: keeps[len(keeps)-1]})
		}
		if s.Transactions && w.Ending == nil {
			all = append(all, Action{Verb: "begin", Lease: i, Text: "yes", Keep: long})
		}
	}
	return all
}

// Random returns what happens next in a random trace.
func Random(random *rand.Rand, w World) Action {
	pick := func(of ...time.Duration) time.Duration { return of[random.IntN(len(of))] }
	verbs := append(slices.Repeat([]string{"claim"}, 6),
		"checkpoint", "checkpoint", "complete", "release", "extend", "pass", "pass", "sweep")
	keeps := []retrysafe.Retention{
		{Replay: 20*time.Minute + tick, Key: time.Hour + tick, Audit: 2*time.Hour + tick},
		{Replay: 20*time.Minute + tick, Key: 3*time.Hour + tick, Audit: 30*time.Minute + tick},
		{Replay: 30*time.Minute + tick, Key: 30*time.Minute + tick, Audit: 5*time.Hour + tick},
	}
	a := Action{
		Verb: verbs[random.IntN(len(verbs))], Owner: random.IntN(4), Lease: random.IntN(3),
		For: pick(5*time.Minute+tick, 20*time.Minute+tick), Keep: keeps[random.IntN(len(keeps))],
		TakeOver: random.IntN(2) == 0, Text: []string{"yes", "perhaps", "no"}[random.IntN(3)],
	}
	a.Other = a.Owner == 3
	switch {
	case a.UnderLease() && a.Lease >= len(w.Leases):
		a.Verb = "claim"
	case a.Verb == "pass":
		a.For = pick(time.Minute, 3*time.Minute, 10*time.Minute, 40*time.Minute, 150*time.Minute)
	case a.Verb == "extend" && random.IntN(3) == 0:
		a.For = 0
	}
	return a
}
