package integration

import (
	"fmt"
	"slices"

	"github.com/anishathalye/porcupine"

	"github.com/retrysafe/retrysafe"
)

// input is one call to a store, and output is its answer. With the start and end times of the calls they form a
// history.
type input struct {
	method      string
	key         string
	fingerprint retrysafe.Fingerprint // claim
	takeOver    bool                  // claim
	owner       retrysafe.Owner
	fence       int64  // all calls except claim
	text        string // step name, or result body
}

type output struct {
	verdict retrysafe.Verdict
	fence   int64
	attempt int
	body    string
	steps   []string
	lost    bool
}

// state is the state of one key according to the contract. Leases never expire, unless extend(0) ends them.
type state struct {
	state       retrysafe.State // 0: free
	fingerprint retrysafe.Fingerprint
	owner       retrysafe.Owner
	fence       int64 // that of the last record, which may be deleted
	lapsed      bool
	attempt     int
	steps       []string
	body        string
}

// model is the Store contract as a sequential machine, one per key.
func model() porcupine.Model {
	return porcupine.Model{
		Partition: partition,
		Init:      func() any { return state{} },
		Step: func(s, in, out any) (bool, any) {
			return s.(state).step(in.(input), out.(output))
		},
		Equal: func(a, b any) bool { return a.(state).equal(b.(state)) },
		DescribeOperation: func(in, out any) string {
			return fmt.Sprintf("%+v -> %+v", in, out)
		},
	}
}

func partition(history []porcupine.Operation) [][]porcupine.Operation {
	byKey := map[string][]porcupine.Operation{}
	for _, op := range history {
		k := op.Input.(input).key
		byKey[k] = append(byKey[k], op)
	}
	parts := make([][]porcupine.Operation, 0, len(byKey))
	for _, ops := range byKey {
		parts = append(parts, ops)
	}
	return parts
}

func (s state) equal(o state) bool {
	return s.state == o.state && s.fingerprint == o.fingerprint && s.owner == o.owner && s.fence == o.fence &&
		s.lapsed == o.lapsed && s.attempt == o.attempt && s.body == o.body && slices.Equal(s.steps, o.steps)
}

// step reports whether out is a correct answer to in, and returns the next state.
func (s state) step(in input, out output) (bool, state) {
	switch in.method {
	case "claim":
		return s.claim(in, out)
	case "release":
		return s.release(in, out)
	case "complete":
		return s.complete(in, out)
	}
	if !s.pendingUnder(in) {
		return out.lost, s
	}
	switch in.method {
	case "extend":
		s.lapsed = false
	case "lapse":
		s.lapsed = true
	case "checkpoint":
		if !slices.Contains(s.steps, in.text) {
			s.steps = append(slices.Clone(s.steps), in.text)
		}
	}
	return !out.lost, s
}

func (s state) claim(in input, out output) (bool, state) {
	same := s.fingerprint == in.fingerprint
	switch {
	case s.state == retrysafe.Pending && s.owner == in.owner:
		s.lapsed = false
		return out.verdict == retrysafe.Acquired && out.fence == s.fence && s.shown(out), s
	case s.state.Ended():
		return out.verdict == retrysafe.Done && out.body == s.body, s
	case s.state == retrysafe.Released && !same, s.state == retrysafe.Pending && !s.lapsed:
		return out.verdict == retrysafe.InFlight, s
	case s.state == retrysafe.Pending && (!in.takeOver || !same):
		return out.verdict == retrysafe.Abandoned, s
	}
	grew := out.fence > s.fence
	s.state, s.owner, s.fence, s.fingerprint, s.lapsed = retrysafe.Pending, in.owner, out.fence, in.fingerprint, false
	s.attempt++
	return out.verdict == retrysafe.Acquired && grew && s.shown(out), s
}

// shown reports whether the claim shows the attempt's number and all steps.
func (s state) shown(out output) bool {
	return out.attempt == s.attempt && slices.Equal(out.steps, s.steps)
}

func (s state) complete(in input, out output) (bool, state) {
	switch {
	case s.state.Ended() && s.ownedBy(in):
		return !out.lost, s
	case !s.pendingUnder(in):
		return out.lost, s
	}
	s.state, s.body = retrysafe.Succeeded, in.text
	return !out.lost, s
}

func (s state) release(in input, out output) (bool, state) {
	switch {
	case s.state == 0 || s.state == retrysafe.Released:
		return !out.lost, s
	case !s.pendingUnder(in):
		return out.lost, s
	case len(s.steps) > 0:
		s.state = retrysafe.Released
		return !out.lost, s
	}
	return !out.lost, state{fence: s.fence}
}

func (s state) pendingUnder(in input) bool { return s.state == retrysafe.Pending && s.ownedBy(in) }

func (s state) ownedBy(in input) bool { return s.owner == in.owner && s.fence == in.fence }
