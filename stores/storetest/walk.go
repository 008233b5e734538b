package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/model"
)

// walkLength is how many operations a walk has.
const walkLength = 100

// patienceOfWalk is less than the 20 seconds between the whole minutes that pass and any deadline.
const patienceOfWalk = 18 * time.Second

// walk runs random operations on the store and on the model, and compares every answer.
func walk(t *testing.T, h Harness) {
	for seed := range uint64(h.Walks) {
		ops := randomOps(seed)
		at, diff := play(t, h, ops)
		if diff == "" {
			continue
		}
		ops, diff = shortest(t, h, ops[:at+1], diff)
		t.Fatalf("seed %d: the store differs from the model after\n%s%s", seed, history(ops), diff)
	}
}

// op is one operation of a walk, on the store and on the model.
type op struct {
	key int // 0 or 1
	model.Action
}

func (o op) String() string {
	if o.Verb == "pass" || o.Verb == "sweep" {
		return o.Action.String()
	}
	return fmt.Sprintf("key %d: %v", o.key, o.Action)
}

func history(ops []op) string {
	var b strings.Builder
	for i, o := range ops {
		fmt.Fprintf(&b, "%4d. %v\n", i+1, o)
	}
	return b.String()
}

// randomOps makes the walk of a seed, with two keys.
func randomOps(seed uint64) []op {
	random := rand.New(rand.NewPCG(seed, 0))
	var worlds [2]model.World
	ops := make([]op, walkLength)
	for i := range ops {
		k := random.IntN(len(worlds))
		o := op{k, model.Random(random, worlds[k])}
		if worlds[k], _ = worlds[k].Do(o.Action); o.Verb == "pass" {
			worlds[1-k], _ = worlds[1-k].Do(o.Action)
		}
		ops[i] = o
	}
	return ops
}

// player plays traces on a store and on the model. The store looks at its clock at another moment than the model, and
// the clock of a store in memory may stand still between two calls of Age. The two differ by no more than the real time
// since the start, which is therefore the tolerance of all durations.
type player struct {
	t        *testing.T
	h        Harness
	store    retrysafe.Store
	start    time.Time
	aged     time.Duration
	patience time.Duration // less than what lies between any deadline and the moment when a trace looks at it
}

func newPlayer(t *testing.T, h Harness, patience time.Duration) *player {
	t.Helper()
	return &player{t: t, h: h, store: h.Open(t), start: time.Now(), patience: patience}
}

// late reports whether so much real time has passed that the store and the model may rightly differ about a deadline.
func (p *player) late() bool {
	late := time.Since(p.start) > p.patience
	if late {
		p.t.Logf("the rest is not compared, because this has taken more than %v", p.patience)
	}
	return late
}

// difference returns how two records differ.
func (p *player) difference(got, want retrysafe.Record) string {
	return difference(got, want, slack+time.Since(p.start))
}

// key returns a new key of the store.
func (p *player) key(id string) *playedKey {
	return &playedKey{player: p, world: model.World{Key: params(id).Key}, fences: map[int64]int64{}}
}

// playedKey is a key, as the store and as the model know it.
type playedKey struct {
	*player
	world  model.World
	leases []retrysafe.Lease // the store's, for those of the world
	fences map[int64]int64   // the model's to the store's
	last   int64             // fence of the store
}

// play returns the first operation that the store and the model answer differently, and the difference; "" if none.
func play(t *testing.T, h Harness, ops []op) (int, string) {
	p := newPlayer(t, h, patienceOfWalk)
	keys := []*playedKey{p.key("a"), p.key("b")}
	for i, o := range ops {
		var d string
		switch o.Verb {
		case "pass", "sweep":
			d = p.event(o.Action)
		default:
			d = keys[o.key].call(o.Action)
		}
		for _, k := range keys {
			if d == "" {
				d = k.inspect()
			}
		}
		if p.late() {
			break
		}
		if d != "" {
			return i, d
		}
	}
	return len(ops), ""
}

// event is an action that is not about one key.
func (p *player) event(a model.Action) string {
	switch a.Verb {
	case "pass":
		p.aged += a.For
		p.h.Age(p.t, p.store, a.For)
	case "sweep":
		if s, ok := p.store.(retrysafe.Sweeper); ok {
			_, err := s.Sweep(context.Background(), 2)
			return differentErrors(err, false)
		}
	}
	return ""
}

// call makes one call to the store, takes the same step of the model, and returns the difference.
func (k *playedKey) call(a model.Action) string {
	n := len(k.leases) - 1 - a.Lease
	if a.UnderLease() && n < 0 {
		return "" // no such lease in this trace
	}
	k.world.Now = time.Since(k.start) + k.aged
	var want model.Answer
	k.world, want = k.world.Do(a)
	ctx := context.Background()
	switch a.Verb {
	case "claim":
		got, err := k.store.Claim(ctx, a.Params(k.world.Key))
		if err != nil {
			return differentErrors(err, false)
		}
		return k.claimed(got, want.Claim)
	case "extend":
		return differentErrors(k.store.Extend(ctx, k.leases[n], a.For), want.Lost)
	case "checkpoint":
		return differentErrors(k.store.Checkpoint(ctx, k.leases[n], a.Step(n)), want.Lost)
	case "complete":
		return differentErrors(k.store.Complete(ctx, k.leases[n], a.Result(n), a.Keep), want.Lost)
	}
	return differentErrors(k.store.Release(ctx, k.leases[n]), want.Lost)
}

func (k *playedKey) claimed(got, want retrysafe.Claim) string {
	if got.Verdict != want.Verdict {
		return fmt.Sprintf("verdict: got %q, want %q", got.Verdict, want.Verdict)
	}
	if got.Verdict == retrysafe.Acquired {
		if d := k.remember(got.Lease, want.Lease); d != "" {
			return d
		}
	}
	if got.Record.State.Ended() {
		got.Record.Steps = nil // Claim may leave them out, as the model does
	}
	return k.difference(got.Record, k.translated(want.Record))
}

// remember keeps a lease, and checks that its fence is the same exactly if the model's is, or else larger.
func (k *playedKey) remember(got, want retrysafe.Lease) string {
	if known, ok := k.fences[want.Fence]; ok {
		if known != got.Fence {
			return fmt.Sprintf("fence: got %d, want %d again", got.Fence, known)
		}
		return ""
	}
	if got.Fence <= k.last {
		return fmt.Sprintf("fence: got %d after %d, want a larger one", got.Fence, k.last)
	}
	k.last, k.fences[want.Fence] = got.Fence, got.Fence
	k.leases = append(k.leases, got)
	return ""
}

// translated replaces the model's fences by those of the store.
func (k *playedKey) translated(r retrysafe.Record) retrysafe.Record {
	r.Fence, r.FirstFence = k.fences[r.Fence], k.fences[r.FirstFence]
	return r
}

// inspect compares what is kept of the key.
func (k *playedKey) inspect() string {
	s, ok := k.store.(retrysafe.Inspector)
	if !ok {
		return ""
	}
	k.world.Now = time.Since(k.start) + k.aged
	want := k.world.Inspect()
	got, err := s.Inspect(context.Background(), k.world.Key.Digest())
	if err != nil {
		return differentErrors(err, false)
	}
	if len(got) != len(want) {
		return fmt.Sprintf("Inspect: got %d records, want %d", len(got), len(want))
	}
	for i := range got {
		if d := k.difference(got[i], k.translated(want[i])); d != "" {
			return fmt.Sprintf("Inspect of %s, record %d:%s", k.world.Key, i, d)
		}
	}
	return ""
}

// differentErrors expects ErrLeaseLost, or else no error.
func differentErrors(got error, lost bool) string {
	if got == nil && !lost || errors.Is(got, retrysafe.ErrLeaseLost) && lost {
		return ""
	}
	return fmt.Sprintf("error: got %v, want ErrLeaseLost: %v", got, lost)
}

// shortest leaves out of ops whatever the difference does not need, in a bounded number of plays.
func shortest(t *testing.T, h Harness, ops []op, diff string) ([]op, string) {
	plays := 200
	for size := len(ops) / 2; size > 0; size /= 2 {
		for from := 0; from+size <= len(ops) && plays > 0; {
			fewer := append(append([]op{}, ops[:from]...), ops[from+size:]...)
			plays--
			if at, d := play(t, h, fewer); d != "" {
				ops, diff = fewer[:at+1], d
			} else {
				from += size
			}
		}
	}
	return ops, diff
}
