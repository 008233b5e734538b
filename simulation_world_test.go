package retrysafe_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/model"
)

// world is everything around the Guards of a simulation: the store, which is the model of the contract with a clock of
// its own, the systems in which the work has effects, and the network between them. It changes only while all other
// goroutines wait, in the order that the seed decides; they may send messages meanwhile.
type world struct {
	*testing.T
	rand      *rand.Rand
	store     map[string]model.State // by Key.ID
	ahead     time.Duration          // of the store's clock, compared with the processes'
	processes []*process
	unlucky   float64 // which part of the messages is lost, or its answer
	open      []*transaction
	steps     int
	calmed    bool // there are no faults any more

	log    sync.Mutex // guards trace and recent
	trace  uint64     // of all that was decided
	recent []string

	mu       sync.Mutex      // guards what follows
	late     map[string]bool // operations of which a message was under way for as long as a lease
	messages []*message
	owners   map[retrysafe.Owner]string // the requests that they claim for
	effects  map[string][]string        // by operation: the bodies of the answers of the attempts that had one
	first    map[string]string          // by child key: what the system that knows it answered first
	fences   map[string]int64           // by child key: the greatest that the system which compares them was told
	saved    map[string]int64           // by child key: the least fence under which a step was saved
	running  int
	told     map[string]map[string]bool // by operation: the different answers
	began    map[string]int             // by operation: how often the work began
}

// process is a Guard that may crash and pause. It is the store, as far as that Guard sees it.
type process struct {
	*world
	n            int
	guard        *retrysafe.Guard
	dead, paused bool
}

// message is a call on its way to the store or to another system, or its answer on the way back.
type message struct {
	from   *process
	what   string // its order among messages that were sent at the same time
	key    string
	locks  bool // waits for a lock of the record
	apply  func() error
	err    error      // of apply
	done   bool       // has been applied
	answer chan error // nil: the sender is dead
	sent   time.Time
	held   time.Duration // under way for so long
}

// transaction is that of a service which has completed a key and not committed.
type transaction struct {
	key, body string
	left      bool // the service has given it up
}

var (
	errNetwork = errors.New("simulation: no answer")
	errCrashed = errors.New("simulation: the process is dead")
)

// note adds a decision to the trace.
func (w *world) note(format string, args ...any) {
	w.log.Lock()
	defer w.log.Unlock()
	line := fmt.Sprintf(format, args...)
	h := fnv.New64a()
	fmt.Fprint(h, w.trace, line)
	w.trace = h.Sum64()
	w.recent = append(w.recent, fmt.Sprintf("%5d %12v %s", w.steps, time.Since(epoch), line))
	if len(w.recent) > 400 {
		w.recent = slices.Clone(w.recent[200:])
	}
}

// epoch is when the time of a bubble begins.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// wrong fails the test, once, and logs what was decided last.
func (w *world) wrong(format string, args ...any) {
	w.Helper()
	w.log.Lock()
	defer w.log.Unlock()
	if w.Failed() {
		return
	}
	for _, line := range w.recent {
		w.Log(line)
	}
	w.Errorf(format, args...)
}

// send sends a message, and returns the answer. A message may take effect after its sender has stopped waiting.
func (p *process) send(ctx context.Context, what, key string, apply func() error) error {
	call, _, _ := strings.Cut(what, " ")
	m := &message{
		from: p, what: fmt.Sprintf("%d %s%s", p.n, what, key), key: key, apply: apply, answer: make(chan error, 1), sent: time.Now(),
		locks: slices.Contains([]string{"extend", "checkpoint", "complete", "release", "begin"}, call),
	}
	p.mu.Lock()
	if p.dead {
		p.mu.Unlock()
		return errCrashed
	}
	p.messages = append(p.messages, m)
	p.mu.Unlock()
	select {
	case err := <-m.answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// arrive makes a message take effect.
func (w *world) arrive(m *message) {
	if m.done {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	m.err, m.done = m.apply(), true
	if time.Since(m.sent) >= simulatedLease {
		w.late[m.key] = true
	}
}

// reply lets the answer of a message, or the error that it was lost, reach its sender.
func (w *world) reply(m *message, err error) {
	w.mu.Lock()
	w.messages = slices.DeleteFunc(w.messages, func(o *message) bool { return o == m })
	w.mu.Unlock()
	if m.answer != nil {
		m.answer <- err
	}
}

// deliverable returns the messages that may take effect or be answered, in an order that does not depend on goroutines.
func (w *world) deliverable() (all []*message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.SortStableFunc(w.messages, func(a, b *message) int { return strings.Compare(a.what, b.what) })
	for _, m := range w.messages {
		if m.held == 0 {
			m.held = 1
			if !w.calmed && w.rand.IntN(20) == 0 {
				m.held = time.Duration(w.rand.IntN(int(simulatedLease)))
			}
		}
		if !m.from.paused && (w.calmed || time.Since(m.sent) >= m.held-1) && (m.done || !m.locks || !w.state(m.key).Locked()) {
			all = append(all, m)
		}
	}
	return all
}

// state is what the store knows of a key now. Its clock stands still rather than going back.
func (w *world) state(key string) model.State {
	s := w.store[key]
	s.Now = max(s.Now, time.Since(epoch)+w.ahead)
	return s
}

// change makes a call on a key.
func (w *world) change(key string, call func(model.State) (model.State, bool)) error {
	s, lost := call(w.state(key))
	if lost {
		return retrysafe.ErrLeaseLost
	}
	w.store[key] = s
	return nil
}

// Claim implements retrysafe.Store.
func (p *process) Claim(ctx context.Context, q retrysafe.ClaimParams) (c retrysafe.Claim, err error) {
	p.mu.Lock()
	if number := q.Tags.String(); number != "" {
		p.owners[q.Owner] = number
	}
	what := fmt.Sprintf("claim %v %v ", p.owners[q.Owner], q.TakeOver)
	p.mu.Unlock()
	var got retrysafe.Claim
	err = p.send(ctx, what, q.Key.ID, func() error {
		return p.change(q.Key.ID, func(s model.State) (model.State, bool) {
			s, got = s.Claim(q, 0)
			p.note("%v, under %d", got.Verdict, got.Record.Fence)
			return s, false
		})
	})
	switch {
	case errors.Is(err, errCrashed): // what ends a Guard soonest
		return c, retrysafe.ErrStoreFull
	case err != nil:
		return c, err
	}
	return got, nil
}

// under makes a call under a lease.
func (p *process) under(
	ctx context.Context, what string, l retrysafe.Lease, call func(model.State) (model.State, bool),
) error {
	p.mu.Lock()
	what = fmt.Sprintf("%s %v ", what, p.owners[l.Owner])
	p.mu.Unlock()
	err := p.send(ctx, what, l.Key.ID, func() error { return p.change(l.Key.ID, call) })
	if errors.Is(err, errCrashed) {
		return retrysafe.ErrLeaseLost
	}
	return err
}

// Extend implements retrysafe.Store.
func (p *process) Extend(ctx context.Context, l retrysafe.Lease, d time.Duration) error {
	return p.under(ctx, "extend", l, func(s model.State) (model.State, bool) { return s.Extend(l, d) })
}

// Checkpoint implements retrysafe.Store.
func (p *process) Checkpoint(ctx context.Context, l retrysafe.Lease, r retrysafe.StepResult) error {
	return p.under(ctx, "checkpoint "+r.Name, l, func(s model.State) (model.State, bool) { return s.Checkpoint(l, r) })
}

// Complete implements retrysafe.Store.
func (p *process) Complete(ctx context.Context, l retrysafe.Lease, r retrysafe.Result, k retrysafe.Retention) error {
	return p.under(ctx, "complete", l, func(s model.State) (model.State, bool) { return s.Complete(l, r, k) })
}

// Release implements retrysafe.Store.
func (p *process) Release(ctx context.Context, l retrysafe.Lease) error {
	return p.under(ctx, "release", l, func(s model.State) (model.State, bool) { return s.Release(l) })
}

// effect lets the work of an attempt have its effect.
func (w *world) effect(key, body string) { w.effects[key] = append(w.effects[key], body) }

// crash ends a process. What it has sent may still arrive.
func (p *process) crash() {
	p.mu.Lock()
	p.dead, p.paused = true, false
	messages := slices.Clone(p.messages)
	p.mu.Unlock()
	for _, m := range messages {
		switch {
		case m.from != p || m.answer == nil:
		case m.done || p.rand.IntN(2) == 0:
			p.reply(m, errCrashed)
		default: // it is still on its way
			m.answer <- errCrashed
			m.answer = nil
		}
	}
	p.mu.Lock()
	for _, t := range p.open { // with its service
		t.left = t.left || p.rand.IntN(2) == 0
	}
	p.mu.Unlock()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = p.guard.Shutdown(ended)
	synctest.Wait()
}
