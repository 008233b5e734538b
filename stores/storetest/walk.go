package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// walkLength is how many operations a walk has.
const walkLength = 100

// walk runs random operations on the store and on memstore, the model, and compares every answer.
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
	verb     string
	key      string
	who      int           // 0 to 3: the owner; 3 makes another request than the rest
	lease    int           // 0: the latest lease, 1: the one before, …
	d        time.Duration // of Lease, of Extend, or how much time passes
	keep     retrysafe.Retention
	takeOver bool
	text     string
}

func (o op) String() string {
	switch o.verb {
	case "claim":
		return fmt.Sprintf("claim %s by owner %d for %v, keep %v, take over %v", o.key, o.who, o.d, o.keep, o.takeOver)
	case "extend":
		return fmt.Sprintf("extend lease -%d by %v", o.lease, o.d)
	case "checkpoint":
		return fmt.Sprintf("checkpoint %q under lease -%d", o.text, o.lease)
	case "complete":
		return fmt.Sprintf("complete lease -%d with %q, keep %v", o.lease, o.text, o.keep)
	case "release":
		return fmt.Sprintf("release lease -%d", o.lease)
	case "age":
		return fmt.Sprintf("let %v pass", o.d)
	}
	return o.verb
}

func history(ops []op) string {
	var b strings.Builder
	for i, o := range ops {
		fmt.Fprintf(&b, "%4d. %v\n", i+1, o)
	}
	return b.String()
}

// randomOps makes the walk of a seed. Time passes in whole minutes, while leases and windows end 20 seconds after one,
// so that no deadline falls between the moment when the store looks at its clock and the moment when the model does.
func randomOps(seed uint64) []op {
	random := rand.New(rand.NewPCG(seed, 0))
	const tick = 20 * time.Second
	verbs := append(slices.Repeat([]string{"claim"}, 6),
		"checkpoint", "checkpoint", "complete", "release", "extend", "age", "age", "sweep")
	lengths := []time.Duration{5*time.Minute + tick, 20*time.Minute + tick}
	passing := []time.Duration{time.Minute, 3 * time.Minute, 10 * time.Minute, 40 * time.Minute, 150 * time.Minute}
	keeps := []retrysafe.Retention{
		{Replay: 20*time.Minute + tick, Key: time.Hour + tick, Audit: 2*time.Hour + tick},
		{Replay: 20*time.Minute + tick, Key: 3*time.Hour + tick, Audit: 30*time.Minute + tick},
		{Replay: 30*time.Minute + tick, Key: 30*time.Minute + tick, Audit: 5*time.Hour + tick},
	}
	ops := make([]op, walkLength)
	for i := range ops {
		o := op{
			verb: pick(random, verbs), key: pick(random, []string{"a", "b"}), who: random.IntN(4),
			lease: random.IntN(3), d: pick(random, lengths), keep: pick(random, keeps),
			takeOver: random.IntN(2) == 0, text: pick(random, []string{"x", "y", "z"}),
		}
		switch {
		case o.verb == "age":
			o.d = pick(random, passing)
		case o.verb == "extend" && random.IntN(3) == 0:
			o.d = 0
		}
		ops[i] = o
	}
	return ops
}

func pick[T any](random *rand.Rand, from []T) T { return from[random.IntN(len(from))] }

// walker plays a walk.
type walker struct {
	t            *testing.T
	h            Harness
	ctx          context.Context
	store, model retrysafe.Store
	aged         time.Duration
	leases       []twin
	fences       map[int64]int64  // the model's to the store's
	last         map[string]int64 // the store's last fence of each key
}

// twin is one lease, as the store and as the model know it.
type twin struct{ store, model retrysafe.Lease }

// play returns the first operation that the store and the model answer differently, and the difference; "" if none.
func play(t *testing.T, h Harness, ops []op) (int, string) {
	w := &walker{t: t, h: h, ctx: context.Background(), fences: map[int64]int64{}, last: map[string]int64{}}
	start := time.Now()
	clock := func() time.Duration { return time.Since(start) + w.aged }
	w.store, w.model = h.Open(t), memstore.New(memstore.Options{Clock: clock})
	for i, o := range ops {
		if d := w.step(o); d != "" {
			return i, d
		}
		for _, key := range []string{"a", "b"} {
			if d := w.inspect(key); d != "" {
				return i, d
			}
		}
	}
	return len(ops), ""
}

// step does o to both and returns the difference.
func (w *walker) step(o op) string {
	switch o.verb {
	case "claim":
		return w.claim(o)
	case "age":
		w.aged += o.d
		w.h.Age(w.t, w.store, o.d)
		return ""
	case "sweep":
		if s, ok := w.store.(retrysafe.Sweeper); ok {
			_, err := s.Sweep(w.ctx, 2)
			return differentErrors(err, nil)
		}
		return ""
	}
	if o.lease >= len(w.leases) {
		return "" // no such lease yet
	}
	l := w.leases[len(w.leases)-1-o.lease]
	return differentErrors(w.write(w.store, l.store, o), w.write(w.model, l.model, o))
}

// write does o under a lease.
func (w *walker) write(s retrysafe.Store, l retrysafe.Lease, o op) error {
	switch o.verb {
	case "extend":
		return s.Extend(w.ctx, l, o.d)
	case "checkpoint":
		return s.Checkpoint(w.ctx, l, step(o.text, o.text))
	case "complete":
		r := result(o.text)
		r.Failed = o.text == "z"
		return s.Complete(w.ctx, l, r, o.keep)
	default:
		return s.Release(w.ctx, l)
	}
}

func (w *walker) claim(o op) string {
	p := params(o.key, by(retrysafe.Owner{byte(o.who)}), lasting(o.d), keeping(o.keep))
	p.TakeOver = o.takeOver
	if o.who == 3 {
		anotherRequest(&p)
	}
	got, err := w.store.Claim(w.ctx, p)
	want, wantErr := w.model.Claim(w.ctx, p)
	if err != nil || wantErr != nil {
		return differentErrors(err, wantErr)
	}
	if got.Verdict != want.Verdict {
		return fmt.Sprintf("verdict: got %q, want %q", got.Verdict, want.Verdict)
	}
	if got.Verdict == retrysafe.Acquired {
		if d := w.remember(o.key, twin{got.Lease, want.Lease}); d != "" {
			return d
		}
	}
	if got.Record.State.Ended() {
		got.Record.Steps, want.Record.Steps = nil, nil // Claim may leave them out
	}
	w.translate(&want.Record)
	return difference(got.Record, want.Record)
}

// remember keeps a lease, and checks that its fence is the same exactly if the model's is, or else larger.
func (w *walker) remember(key string, l twin) string {
	w.leases = append(w.leases, l)
	if known, ok := w.fences[l.model.Fence]; ok {
		if known != l.store.Fence {
			return fmt.Sprintf("fence: got %d, want %d again", l.store.Fence, known)
		}
		return ""
	}
	if l.store.Fence <= w.last[key] {
		return fmt.Sprintf("fence: got %d after %d, want a larger one", l.store.Fence, w.last[key])
	}
	w.last[key] = l.store.Fence
	w.fences[l.model.Fence] = l.store.Fence
	return ""
}

// translate replaces the model's fences by those of the store.
func (w *walker) translate(r *retrysafe.Record) {
	r.Fence, r.FirstFence = w.fences[r.Fence], w.fences[r.FirstFence]
}

// inspect compares what is kept of the key.
func (w *walker) inspect(key string) string {
	s, ok := w.store.(retrysafe.Inspector)
	if !ok {
		return ""
	}
	digest := params(key).Key.Digest()
	got, err := s.Inspect(w.ctx, digest)
	want, wantErr := w.model.(retrysafe.Inspector).Inspect(w.ctx, digest)
	if err != nil || wantErr != nil {
		return differentErrors(err, wantErr)
	}
	if len(got) != len(want) {
		return fmt.Sprintf("Inspect: got %d records, want %d", len(got), len(want))
	}
	for i := range got {
		w.translate(&want[i])
		if d := difference(got[i], want[i]); d != "" {
			return fmt.Sprintf("Inspect of %s, record %d:%s", key, i, d)
		}
	}
	return ""
}

// differentErrors expects both to be nil, or both to be ErrLeaseLost.
func differentErrors(got, want error) string {
	if got == nil && want == nil || errors.Is(got, retrysafe.ErrLeaseLost) && errors.Is(want, retrysafe.ErrLeaseLost) {
		return ""
	}
	return fmt.Sprintf("error: got %v, want %v", got, want)
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
