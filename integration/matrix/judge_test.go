//go:build linux

package matrix

import (
	"fmt"
	"slices"
	"strings"
)

// tolerance is what the time of a call may differ from that of its effect, in microseconds.
const tolerance = 50_000

// verdict has all that is known of one key, and judges it.
type verdict struct {
	policy string
	events []event
	ledger []entry
	rows   []string // of transactions
	last   string   // ID of a request after all faults
	since  int64    // when it was sent
	free   bool     // the work cannot have begun before the fault, so that the key must have an answer in the end
}

// effects counts the effects of the key.
func (v *verdict) effects() (n int) {
	for _, e := range v.ledger {
		if e.Kind == "effect" {
			n++
		}
	}
	return n + len(v.rows)
}

// problems returns what breaks a promise.
func (v *verdict) problems() (all []string) {
	all = append(all, v.tooMany()...)
	all = append(all, v.answers()...)
	all = append(all, v.beside()...)
	all = append(all, v.zombies()...)
	all = append(all, v.end()...)
	slices.Sort(all)
	return slices.Compact(all)
}

// tooMany compares the effects with what the policy promises.
func (v *verdict) tooMany() (all []string) {
	n := v.effects()
	switch v.policy {
	case refuse, reconcile, sameTx:
		if n > 1 {
			all = append(all, fmt.Sprintf("%d effects instead of one", n))
		}
	case steps:
		children := map[string]string{}
		for _, e := range v.ledger {
			if child := children[e.Step]; child != "" && child != e.Child {
				all = append(all, fmt.Sprintf("step %s was called under two child keys", e.Step))
			}
			children[e.Step] = e.Child
			for _, s := range v.events {
				if s.Kind == "saved" && s.Point == e.Step && v.began(e.Fence) > s.At {
					all = append(all, "an attempt that began later has repeated step "+e.Step+", which was saved")
				}
			}
		}
	}
	return all
}

// began returns when the attempt of a fence began.
func (v *verdict) began(fence int64) int64 {
	for _, e := range v.events {
		if e.Kind == "run" && e.Fence == fence {
			return e.At
		}
	}
	return 0
}

// answers compares the answers that were stored with each other, and with the effects.
func (v *verdict) answers() (all []string) {
	var bodies []string
	var first int64
	for _, e := range v.events {
		if e.Kind == "end" && e.Stored && !slices.Contains(bodies, e.Body) {
			bodies = append(bodies, e.Body)
		}
		if e.Kind == "end" && e.Stored && first == 0 {
			first = e.At
		}
	}
	if len(bodies) > 1 {
		all = append(all, fmt.Sprintf("%d different answers: %q", len(bodies), bodies))
	}
	for _, b := range bodies {
		if !v.isOfAnEffect(b) {
			all = append(all, fmt.Sprintf("the answer %q is of no effect", b))
		}
	}
	for _, e := range v.events {
		if e.Kind == "run" && first > 0 && e.At > first {
			all = append(all, "the work ran after an answer was given")
		}
		if e.Kind == "end" && e.Stored && v.policy != steps && e.At > 0 && v.effects() == 0 {
			all = append(all, "an answer without an effect")
		}
	}
	return all
}

func (v *verdict) isOfAnEffect(body string) bool {
	if v.policy == sameTx {
		return slices.Contains(v.rows, body)
	}
	parts := strings.Split(body, "+")
	names := []string{""}
	if v.policy == steps {
		names = []string{"one", "two"}
	}
	if len(parts) != len(names) {
		return false
	}
	for i, run := range parts {
		if !slices.ContainsFunc(v.ledger, func(e entry) bool {
			return e.Kind == "effect" && e.Run == run && e.Step == names[i]
		}) {
			return false
		}
	}
	return true
}

// acknowledged reports whether a call was made under a lease, and the store has said that the lease is good.
func (e event) acknowledged() bool { return e.Kind == "call" && e.Err == "" && e.Fence != 0 }

// beside looks for an attempt that began while the lease of another one ran.
func (v *verdict) beside() (all []string) {
	for _, run := range v.events {
		if run.Kind != "run" {
			continue
		}
		for _, e := range v.events {
			renews := e.acknowledged() && (e.Point == "claim" || e.Point == "beat")
			if renews && e.Fence != run.Fence && e.Began < run.At &&
				e.Began+lease.Microseconds()-tolerance > run.At && !v.triedToEnd(e.Fence, run.At) {
				all = append(all, "an attempt began beside one whose lease ran")
			}
		}
	}
	return all
}

// triedToEnd reports whether an attempt has tried to end before a moment. It may have, and its answer may be lost.
func (v *verdict) triedToEnd(fence, before int64) bool {
	return slices.ContainsFunc(v.events, func(e event) bool {
		return e.Kind == "calling" && e.Fence == fence && e.Began < before &&
			slices.Contains([]string{"complete", "release", "lapse"}, e.Point)
	})
}

// zombies looks for calls that were acknowledged although a newer attempt had the key before they began.
func (v *verdict) zombies() (all []string) {
	for _, e := range v.events {
		if !e.acknowledged() || e.Point == "release" || e.Point == "claim" || e.Began == 0 {
			continue
		}
		for _, newer := range v.events {
			if newer.acknowledged() && newer.Point == "claim" && newer.Fence > e.Fence && newer.At < e.Began {
				all = append(all, e.Point+" under a lost lease was acknowledged")
			}
		}
	}
	return all
}

// end looks at what the key has come to after all faults.
func (v *verdict) end() (all []string) {
	answered := slices.ContainsFunc(v.events, func(e event) bool {
		return e.Kind == "end" && e.Stored && e.At < v.since
	})
	for _, e := range v.events {
		switch {
		case e.Kind == "failed":
			all = append(all, "harness: "+e.Err)
		case e.Kind != "end" || e.ID != v.last:
		case e.Answered && !e.Stored:
			all = append(all, "after all faults, an answer is not stored")
		case e.Answered:
		case v.policy != refuse, v.free:
			all = append(all, "after all faults, there is no answer: "+e.Err)
		case answered:
			all = append(all, "an answer was given, and after all faults there is none: "+e.Err)
		}
	}
	ended := slices.ContainsFunc(v.events, func(e event) bool { return e.Kind == "end" && e.ID == v.last })
	if len(all) == 0 && !ended {
		all = append(all, "after all faults, a request does not end")
	}
	return all
}
