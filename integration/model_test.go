package integration

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/model"
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

// linearizable is the Store contract as a sequential machine, one per key. Leases never expire, unless extend(0) ends
// them.
func linearizable() porcupine.Model {
	return porcupine.Model{
		Partition: partition,
		Init:      func() any { return model.State{} },
		Step: func(s, in, out any) (bool, any) {
			return step(s.(model.State), in.(input), out.(output))
		},
		Equal: reflect.DeepEqual,
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

// step reports whether out is a correct answer to in, and returns the next state.
func step(s model.State, in input, out output) (bool, model.State) {
	l := retrysafe.Lease{Key: key(in), Owner: in.owner, Fence: in.fence}
	lost := false
	switch in.method {
	case "claim":
		s, c := s.Claim(retrysafe.ClaimParams{
			Key: l.Key, Fingerprint: in.fingerprint, Owner: in.owner, Lease: time.Hour, Keep: keep, TakeOver: in.takeOver,
		}, out.fence)
		right := c.Verdict == out.verdict && c.Lease.Fence == out.fence && string(c.Record.Result.Body) == out.body
		return right && (c.Verdict != retrysafe.Acquired || shown(c.Record, out)), s
	case "extend":
		s, lost = s.Extend(l, time.Hour)
	case "lapse":
		s, lost = s.Extend(l, 0)
	case "checkpoint":
		s, lost = s.Checkpoint(l, retrysafe.StepResult{Name: in.text})
	case "complete":
		s, lost = s.Complete(l, retrysafe.Result{Body: []byte(in.text)}, keep)
	case "release":
		s, lost = s.Release(l)
	}
	return lost == out.lost, s
}

// shown reports whether the claim shows the attempt's number and all steps.
func shown(r retrysafe.Record, out output) bool {
	return out.attempt == r.Attempt && slices.EqualFunc(out.steps, r.Steps, func(name string, s retrysafe.StepResult) bool {
		return name == s.Name
	})
}
