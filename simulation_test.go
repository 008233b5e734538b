package retrysafe_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/model"
	"github.com/retrysafe/retrysafe/internal/testing/soak"
)

// kind is a way to work, and what its policy promises.
type kind struct {
	name   string
	policy retrysafe.Policy
	work   func(caller, context.Context, *retrysafe.Attempt) (retrysafe.Result, error)
	// once says that there are no two effects of a key, whatever happens.
	once bool
	// ends says that a key has an answer in the end, whatever happened.
	ends bool
}

var kinds = []kind{
	{"refuse", retrysafe.Policy{}, caller.once, true, false},
	{"steps", retrysafe.Policy{OnAbandoned: retrysafe.Rerun()}, caller.steps, false, true},
	{"transaction", retrysafe.Policy{OnAbandoned: retrysafe.RerunTx()}, caller.inTransaction, true, true},
	{"elsewhere", retrysafe.Policy{OnAbandoned: retrysafe.Rerun()}, caller.elsewhere, true, true},
	{"reconcile", retrysafe.Policy{}, caller.reconciled, true, true}, // with process.reconcile
}

// caller makes one call of Do.
type caller struct {
	*process
	n      int
	key    string
	mode   int // of its work
	cancel context.CancelFunc
}

const (
	simulatedLease = 3 * time.Second
	// Requests are for one of three operations; every so many decisions a new one takes the place of the oldest.
	simulatedKeys = 3
	perOperation  = 100
)

// simulate makes so many decisions, and then lets everything end. It returns the trace.
func simulate(t *testing.T, seed uint64, k kind, steps int) (trace uint64) {
	t.Run(fmt.Sprint(k.name, "/", seed), func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := &world{
				T: t, rand: rand.New(rand.NewPCG(seed, 0)), store: map[string]model.State{}, owners: map[retrysafe.Owner]string{},
				effects: map[string][]string{}, first: map[string]string{}, fences: map[string]int64{}, saved: map[string]int64{},
				told: map[string]map[string]bool{}, began: map[string]int{}, late: map[string]bool{},
			}
			s := &simulation{world: w, kind: k, requests: map[int]caller{}}
			s.policy.Lease = simulatedLease
			s.policy.HoldUnsaved = time.Minute
			if w.rand.IntN(2) == 0 {
				s.policy.OnInFlight = retrysafe.Wait(time.Duration(1+w.rand.IntN(20)) * time.Second)
			}
			s.crashes = w.rand.IntN(3) > 0
			for n := range 3 {
				w.processes = append(w.processes, s.start(n))
			}
			for ; w.steps < steps && !t.Failed(); w.steps++ {
				synctest.Wait()
				s.decide()
			}
			s.calm()
			trace = w.trace
		})
	})
	return trace
}

// simulation decides what happens next.
type simulation struct {
	*world
	kind
	crashes  bool
	crashed  int
	n        int // requests so far
	requests map[int]caller
}

func (s *simulation) decide() {
	switch n := s.rand.IntN(1000); {
	case n < 100 && s.busy() < 6:
		s.request(s.rand.IntN(len(s.processes)), s.steps/perOperation+s.rand.IntN(simulatedKeys), s.rand.IntN(20))
	case n < 115:
		s.leave()
	case n < 118:
		s.unlucky = []float64{0, 0, 0.1, 0.9}[s.rand.IntN(4)]
		s.note("unlucky: %v", s.unlucky)
	case n < 128:
		p := s.processes[s.rand.IntN(len(s.processes))]
		p.paused = !p.paused
		s.note("process %d paused: %v", p.n, p.paused)
	case n < 132:
		jump := time.Duration(s.rand.IntN(2*int(simulatedLease))) - simulatedLease
		s.ahead += jump
		s.note("the store's clock jumps by %v", jump)
	case n < 134 && s.crashes:
		i := s.rand.IntN(len(s.processes))
		s.note("process %d crashes", s.processes[i].n)
		s.crashed++
		s.processes[i].crash()
		s.processes[i] = s.start(s.processes[i].n + 10)
	case n < 135:
		for key := range s.store {
			s.store[key] = s.state(key).Sweep()
		}
		s.note("sweep")
	case n < 145:
		s.rollBack()
	case n < 165:
		s.pass(time.Duration(s.rand.IntN(2 * int(simulatedLease))))
	case n < 300:
		s.pass(time.Duration(s.rand.IntN(100 * int(time.Millisecond))))
	default:
		s.deliver()
	}
}

func (w *world) busy() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.running
}

func (w *world) pass(d time.Duration) {
	w.note("%v pass", d)
	time.Sleep(d)
}

// deliver lets a message take effect, be answered, or be lost.
func (w *world) deliver() {
	all := w.deliverable()
	if len(all) == 0 {
		w.pass(time.Duration(1 + w.rand.IntN(int(time.Second))))
		return
	}
	m := all[w.rand.IntN(len(all))]
	switch n := w.rand.Float64(); {
	case n < 0.03:
		w.note("%s: takes effect", m.what)
		w.arrive(m)
	case n < 0.04+w.unlucky/2:
		w.note("%s: lost", m.what)
		w.reply(m, errNetwork)
	case n < 0.05+w.unlucky:
		w.arrive(m)
		w.note("%s: the answer is lost: %v", m.what, m.err)
		w.reply(m, errNetwork)
	default:
		w.arrive(m)
		w.note("%s: %v", m.what, m.err)
		w.reply(m, m.err)
	}
}

// request calls Do in a process. One in twenty has another fingerprint than the others.
func (s *simulation) request(process, key, mode int) {
	ctx, cancel := context.WithCancel(context.Background())
	s.n++
	r := caller{s.processes[process], s.n, fmt.Sprint("k", key), mode, cancel}
	s.note("request %d: process %d, key %s, mode %d", r.n, r.process.n, r.key, r.mode)
	s.mu.Lock()
	asked, other := r.asked(), mode == 19 && len(s.told[r.key]) > 0
	s.running++
	s.mu.Unlock()
	if other {
		asked.Fingerprint = "raw1:b"
	}
	s.requests[r.n] = r
	go func() {
		out, err := s.do(ctx, r, asked, other)
		s.look(r, out, err, other)
		cancel()
		s.mu.Lock()
		s.running--
		s.mu.Unlock()
	}()
}

// asked is what the caller gives to Do.
func (r caller) asked() retrysafe.Request {
	tags, err := retrysafe.NewTags(map[string]string{"request": fmt.Sprint(r.n)}) // which tells its claims from others'
	if err != nil {
		r.Fatal(err)
	}
	return retrysafe.Request{Key: retrysafe.Key{Scope: "s", ID: r.key}, Fingerprint: "raw1:a", Tags: tags}
}

var errPanicInWork = errors.New("simulation: the work panicked")

// do calls Do, and turns a panic of the work into an error.
func (s *simulation) do(ctx context.Context, r caller, asked retrysafe.Request, other bool) (o retrysafe.Outcome, err error) {
	defer func() {
		switch p := recover(); p {
		case nil:
		case errPanicInWork:
			err = errPanicInWork
		default:
			panic(p)
		}
	}()
	return r.guard.Do(ctx, asked, func(ctx context.Context, a *retrysafe.Attempt) (retrysafe.Result, error) {
		s.mu.Lock()
		s.began[r.key]++
		s.mu.Unlock()
		if other {
			s.wrong("key %s: another request ran", r.key)
		}
		return s.work(r, ctx, a)
	})
}

// look looks at what the caller of Do was told.
func (s *simulation) look(r caller, out retrysafe.Outcome, err error, other bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var failure *retrysafe.Failure
	answer := "result " + string(out.Result.Body)
	switch {
	case r.dead:
		return
	case errors.As(err, &failure):
		answer = "failure " + failure.Message
	case err != nil:
		return
	}
	if other {
		s.wrong("key %s: another request was told %s", r.key, answer)
	}
	if out.Stored {
		if s.told[r.key] == nil {
			s.told[r.key] = map[string]bool{}
		}
		s.told[r.key][answer] = true
	}
	if err == nil && len(s.effects[r.key]) == 0 {
		s.wrong("key %s: request %d was told %s, and there was no effect", r.key, r.n, answer)
	}
}

// leave ends the context of a caller.
func (s *simulation) leave() {
	all := slices.Sorted(maps.Keys(s.requests))
	if len(all) == 0 {
		return
	}
	r := s.requests[all[s.rand.IntN(len(all))]]
	delete(s.requests, r.n)
	s.note("the caller of request %d leaves", r.n)
	r.cancel()
}

// rollBack ends a transaction whose service has given it up.
func (w *world) rollBack() {
	w.mu.Lock()
	i := slices.IndexFunc(w.open, func(t *transaction) bool { return t.left })
	w.mu.Unlock()
	if i < 0 {
		return
	}
	t := w.open[i]
	w.open = slices.Delete(w.open, i, i+1)
	w.store[t.key] = w.state(t.key).Rollback()
	w.note("the transaction of key %s is rolled back", t.key)
}

// calm lets all faults end, and checks what must hold then.
func (s *simulation) calm() {
	synctest.Wait()
	s.note("calm")
	s.unlucky, s.calmed = 0, true
	for _, p := range s.processes {
		p.paused = false
	}
	s.settle("what was under way has not ended")
	for key := range s.steps/perOperation + simulatedKeys {
		s.lastly(key%len(s.processes), key)
		s.lastly((key+1)%len(s.processes), key)
	}
	for _, p := range s.processes {
		s.in(func() {
			ctx, stop := context.WithTimeout(context.Background(), time.Hour)
			defer stop()
			if err := p.guard.Shutdown(ctx); err != nil {
				s.wrong("process %d: %v", p.n, err)
			}
		})
	}
	s.check()
	for _, p := range s.processes { // of which calls are under way if something was wrong
		p.crash()
	}
	time.Sleep(time.Minute) // in which work that sleeps ends
}

// start starts a process.
func (s *simulation) start(n int) *process {
	p, policy := &process{world: s.world, n: n}, s.policy
	if s.name == "reconcile" {
		policy.OnAbandoned = retrysafe.Reconcile(p.reconcile)
	}
	p.guard = retrysafe.New(p, retrysafe.Options{Policy: policy})
	return p
}

// in runs f, and delivers all messages until it has returned.
func (s *simulation) in(f func()) {
	s.mu.Lock()
	s.running++
	s.mu.Unlock()
	go func() {
		f()
		s.mu.Lock()
		s.running--
		s.mu.Unlock()
	}()
	s.settle("a call has not ended")
}

// settle delivers messages until nothing is under way.
func (s *simulation) settle(otherwise string) {
	for range 20_000 {
		synctest.Wait()
		if s.Failed() {
			return
		}
		s.rollBack()
		if all := s.deliverable(); len(all) > 0 {
			m := all[s.rand.IntN(len(all))]
			s.arrive(m)
			s.note("%s: %v", m.what, m.err)
			s.reply(m, m.err)
			continue
		}
		if s.busy() == 0 {
			return
		}
		time.Sleep(time.Second)
	}
	s.wrong("%s: %d calls, %d messages", otherwise, s.busy(), len(s.messages))
}

// lastly asks for a key when there are no faults any more.
func (s *simulation) lastly(process, key int) {
	r := caller{s.processes[process], 0, fmt.Sprint("k", key), 0, func() {}}
	var err error
	fresh := s.began[r.key] == 0 && s.crashed == 0 && !s.late[r.key]
	s.in(func() {
		var out retrysafe.Outcome
		for range 20 {
			out, err = s.do(context.Background(), r, r.asked(), false)
			s.look(r, out, err, false)
			if !errors.Is(err, retrysafe.ErrInFlight) && !errors.Is(err, retrysafe.ErrWaitTimeout) { // with a claim that is undone
				return
			}
			time.Sleep(time.Second)
		}
	})
	failed := errors.As(err, new(*retrysafe.Failure))
	switch {
	case err == nil, failed:
	case s.ends || fresh || !errors.Is(err, retrysafe.ErrAbandoned):
		s.wrong("key %s, after the faults: %v", r.key, err)
	}
}

// check compares the store, the effects and what callers were told.
func (s *simulation) check() {
	for key := range s.store {
		if s.once && len(s.effects[key]) > 1 {
			s.wrong("key %s: %d effects: %v", key, len(s.effects[key]), s.effects[key])
		}
		if len(s.told[key]) > 1 {
			s.wrong("key %s: different answers: %v", key, slices.Sorted(maps.Keys(s.told[key])))
		}
	}
}

// Guards in three processes, requests that come, leave and race, a store whose answers are late or lost, whose clock
// jumps and which is away for a while, processes that crash or pause, and late messages of the dead. A seed decides the
// order of everything, so that a failure can be repeated: RETRYSAFE_SEED=… go test -run TestSoakSimulation .
//
// Seen to fail with
//
//   - another Owner for the second claim in claim, and with undoClaim taken out of it: keys whose work never began were
//     abandoned
//   - the look at ErrLeaseLost taken out of localEnd.complete: two answers
//   - matches taken out of decide: another request ran, and was told the answer
//   - CompletedElsewhere without effect: an answer that the service had not saved
//   - a panic, or an error marked Unknown, that releases the key: two effects
//   - reconciling that never asks: two effects
//   - saveStep without checkpoint: a step ran again
//   - an error of save that localEnd.complete takes for success: two answers
func TestSoakSimulation(t *testing.T) {
	repeatable(t)
	seed, runs := rand.Uint64(), 100 // a million decisions
	if raceEnabled {
		runs = 4
	}
	runs = soak.Times(t, runs)
	if set := os.Getenv("RETRYSAFE_SEED"); set != "" {
		n, err := strconv.ParseUint(set, 10, 64)
		if err != nil {
			t.Fatalf("RETRYSAFE_SEED: %v", err)
		}
		seed, runs = n, 1
	}
	for range runs {
		for _, k := range kinds {
			if simulate(t, seed, k, simulationSteps); t.Failed() {
				t.Fatalf("to repeat it: RETRYSAFE_SEED=%d go test -run 'TestSoakSimulation/%s' .", seed, k.name)
			}
		}
		seed++
	}
	t.Logf("%d decisions", runs*len(kinds)*simulationSteps)
}

const simulationSteps = 2000

// repeatable takes chance out of Guards and, as far as possible, out of the scheduler.
func repeatable(t *testing.T) {
	before := runtime.GOMAXPROCS(1)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	t.Cleanup(retrysafe.SetJitter(func(d time.Duration) time.Duration { return d * 3 / 4 }))
}

// A seed decides everything. What it cannot decide is the order in which the scheduler runs goroutines that one event has
// woken: that of many claims which are undone at once was seen to change what followed in one pair of runs in fifty.
func TestSimulationIsRepeatable(t *testing.T) {
	repeatable(t)
	same, pairs := 0, 0
	for seed := range uint64(4) {
		for _, k := range kinds {
			if one, two := simulate(t, seed, k, 1000), simulate(t, seed, k, 1000); one == two {
				same++
			}
			pairs++
		}
	}
	if same < pairs*4/5 {
		t.Errorf("%d of %d pairs of runs were the same", same, pairs)
	}
}
