package shardstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/soak"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// What the model's attempts claim for.
const (
	modelLease = 10 * time.Second
	modelKey   = time.Hour
)

var errLost = errors.New("the answer was lost")

// world is a fleet that moves from one store to another, and a checker of what it promises. One goroutine of the fleet
// runs at a time: each stops before every call of a store, and the schedule, drawn from a seed, says who goes on.
type world struct {
	running   sync.Mutex // of the goroutine that runs: two may wake at the same moment. It guards what follows.
	random    *rand.Rand
	mutant    mutant
	old, next *memstore.Store
	fleet     []*process
	keys      map[string]*truth
	all       []string
	active    [2]string // keys that are worked on
	faults    int       // of 100 calls, how many fail
	takesOver bool      // the policy is Rerun
	late      []late    // calls that are still on their way
	wrong     string
	log       []string
	seen      map[string]int // how often something happened that walks are for
}

// truth is what the checker knows of a key.
type truth struct {
	holder  *attempt // the last that began to work
	inDoubt bool     // an attempt has begun, and none has ended since
	ended   bool
	answer  string
	offered map[string]bool // answers with which attempts have tried to complete
	steps   map[string]string
	fence   int64
}

type attempt struct {
	by    *process
	lease retrysafe.Lease
	until time.Time // its lease ends no earlier
	over  bool
}

// mutant is a mistake in the protocol.
type mutant struct {
	// stages are those at which processes really are, by those at which they should be; nil: the same.
	stages []int
	// early begins the last stage without waiting for the retention.
	early bool
	// wrap changes how a process sees the store that does not decide.
	wrap func(*gated) retrysafe.Store
	// change changes the Store of a process.
	change func(*Store) retrysafe.Store
	// neverAbandons keeps the fleet from giving a lease up.
	neverAbandons bool
}

// process is a program with a Store. It works on one request at a time.
type process struct {
	world   *world
	name    string
	store   retrysafe.Store
	stage   int
	busy    bool
	dead    bool
	waiting bool // for next
	next    chan mode
}

// mode is what becomes of a call.
type mode uint8

const (
	happens mode = iota
	fails        // without effect
	loses        // the answer
	delays       // it happens some time after the caller has given up
)

// late is a call that its caller has given up, and that happens all the same after so many steps of the schedule.
type late struct {
	steps int
	do    func()
}

// call stops until the schedule says how a call goes.
func (p *process) call(what string, do func() error) error {
	p.world.running.Lock()
	defer p.world.running.Unlock()
	if p.dead {
		return errLost
	}
	p.waiting = true
	p.world.running.Unlock()
	m := <-p.next
	p.world.running.Lock()
	p.waiting = false
	if p.dead || m == fails {
		p.world.logf("%s %s fails", p.name, what)
		return errLost
	}
	if m == delays {
		p.world.logf("%s %s, which will happen later", p.name, what)
		p.world.late = append(p.world.late, late{1 + p.world.random.IntN(60), func() {
			p.world.logf("%s %s, late: %v", p.name, what, do())
			p.world.seen["late"]++
		}})
		return errLost
	}
	err := do()
	if m == loses {
		p.world.logf("%s %s loses the answer", p.name, what)
		return errLost
	}
	p.world.logf("%s %s: %v", p.name, what, err)
	return err
}

func (w *world) logf(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }

func (w *world) fail(format string, args ...any) {
	if w.wrong == "" {
		w.wrong = fmt.Sprintf(format, args...)
		w.logf("WRONG: %s", w.wrong)
	}
}

// onTheWay is the context of a call that is on its way: a caller that gives it up does not stop it.
var onTheWay = context.Background()

// gated is a store as one process sees it.
type gated struct {
	*memstore.Store
	name string
	by   *process
}

func (g *gated) Claim(ctx context.Context, p retrysafe.ClaimParams) (c retrysafe.Claim, err error) {
	what := fmt.Sprint("claims ", p.Key.ID, " in ", g.name, " by ", p.Owner.String()[:4], " ", p.TakeOver)
	err = g.by.call(what, func() error {
		c, err = g.Store.Claim(onTheWay, p)
		g.by.world.logf("  %v attempt %d, %d steps", c.Verdict, c.Record.Attempt, len(c.Record.Steps))
		return err
	})
	if err != nil {
		c = retrysafe.Claim{}
	}
	return c, err
}

func (g *gated) Extend(ctx context.Context, l retrysafe.Lease, d time.Duration) error {
	return g.by.call(fmt.Sprint("extends ", l.Key.ID, " in ", g.name, " by ", d), func() error {
		return g.Store.Extend(onTheWay, l, d)
	})
}

func (g *gated) Checkpoint(ctx context.Context, l retrysafe.Lease, s retrysafe.StepResult) error {
	return g.by.call(fmt.Sprint("checkpoints ", l.Key.ID, " in ", g.name), func() error {
		return g.Store.Checkpoint(onTheWay, l, s)
	})
}

func (g *gated) Complete(ctx context.Context, l retrysafe.Lease, r retrysafe.Result, keep retrysafe.Retention) error {
	return g.by.call(fmt.Sprint("completes ", l.Key.ID, " in ", g.name), func() error {
		return g.Store.Complete(onTheWay, l, r, keep)
	})
}

func (g *gated) Release(ctx context.Context, l retrysafe.Lease) error {
	return g.by.call(fmt.Sprint("releases ", l.Key.ID, " in ", g.name), func() error {
		return g.Store.Release(onTheWay, l)
	})
}

func (g *gated) Inspect(ctx context.Context, d retrysafe.Digest) (found []retrysafe.Record, err error) {
	err = g.by.call("looks in "+g.name, func() error {
		found, err = g.Store.Inspect(ctx, d)
		return err
	})
	return found, err
}

// start makes a process at a stage.
func (w *world) start(name string, stage int) *process {
	p := &process{world: w, name: fmt.Sprintf("%s@%d", name, stage), stage: stage, next: make(chan mode)}
	really := stage
	if w.mutant.stages != nil {
		really = w.mutant.stages[stage]
	}
	var old, next retrysafe.Store = &gated{w.old, "old", p}, &gated{w.next, "new", p}
	if w.mutant.wrap != nil && really == 1 {
		next = w.mutant.wrap(next.(*gated))
	} else if w.mutant.wrap != nil && really == 2 {
		old = w.mutant.wrap(old.(*gated))
	}
	from, to := []Shard{{"old", old}}, []Shard{{"new", next}}
	var s *Store
	var err error
	switch really {
	case 0:
		s, err = New(from, Options{})
	case 3:
		s, err = New(to, Options{})
	default:
		s, err = New(from, Options{Move: &Move{To: to, Stage: Stage(really)}})
	}
	if err != nil {
		panic(err)
	}
	p.store = s
	if w.mutant.change != nil {
		p.store = w.mutant.change(s)
	}
	p.store = outside{p.store, w}
	return p
}

// outside lets others run while a call waits.
type outside struct {
	retrysafe.Store
	world *world
}

// pause lets others run until the function that it returns is called.
func (s outside) pause() func() {
	s.world.running.Unlock()
	return s.world.running.Lock
}

func (s outside) Claim(ctx context.Context, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
	defer s.pause()()
	return s.Store.Claim(ctx, p)
}

func (s outside) Extend(ctx context.Context, l retrysafe.Lease, d time.Duration) error {
	defer s.pause()()
	return s.Store.Extend(ctx, l, d)
}

func (s outside) Checkpoint(ctx context.Context, l retrysafe.Lease, step retrysafe.StepResult) error {
	defer s.pause()()
	return s.Store.Checkpoint(ctx, l, step)
}

func (s outside) Complete(ctx context.Context, l retrysafe.Lease, r retrysafe.Result, k retrysafe.Retention) error {
	defer s.pause()()
	return s.Store.Complete(ctx, l, r, k)
}

func (s outside) Release(ctx context.Context, l retrysafe.Lease) error {
	defer s.pause()()
	return s.Store.Release(ctx, l)
}

// request is one request to a process: a claim, and perhaps the work.
func (p *process) request(id string) {
	w := p.world
	w.running.Lock()
	defer w.running.Unlock()
	defer func() { p.busy = false }()
	t := w.keys[id]
	ctx := context.Background()
	params := retrysafe.ClaimParams{
		Key: retrysafe.Key{ID: id}, Fingerprint: "raw1:one", Owner: retrysafe.NewOwner(), Lease: modelLease,
		Keep: retrysafe.Retention{Key: modelKey},
	}
	for range 2 {
		c, asked, err := p.claim(ctx, params)
		switch {
		case p.dead:
			return
		case err != nil:
			p.undo(ctx, params)
			return
		case c.Verdict == retrysafe.Done:
			w.checkAnswer(id, t, string(c.Record.Result.Body))
			return
		case c.Verdict == retrysafe.Acquired:
			w.checkStart(p, id, t, c, params.TakeOver)
			p.work(ctx, t, &attempt{by: p, lease: c.Lease, until: asked.Add(modelLease)}, c)
			return
		case c.Verdict == retrysafe.Abandoned && w.takesOver:
			params.TakeOver = true
		default:
			return
		}
	}
}

// claim claims twice, as a Guard does.
func (p *process) claim(ctx context.Context, params retrysafe.ClaimParams) (retrysafe.Claim, time.Time, error) {
	asked := time.Now()
	c, err := p.store.Claim(ctx, params)
	if err != nil && !p.dead {
		asked = time.Now()
		c, err = p.store.Claim(ctx, params)
	}
	return c, asked, err
}

// undo gives back a claim whose answer was lost, as a Guard does.
func (p *process) undo(ctx context.Context, params retrysafe.ClaimParams) {
	c, err := p.store.Claim(ctx, params)
	if err != nil || c.Verdict != retrysafe.Acquired {
		return
	}
	p.world.seen["undone"]++
	if params.TakeOver && c.Record.Attempt > 1 {
		_ = p.store.Extend(ctx, c.Lease, 0)
		return
	}
	_ = p.store.Release(ctx, c.Lease)
}

// work works on a key, and ends in one of the ways in which attempts do.
func (p *process) work(ctx context.Context, t *truth, a *attempt, c retrysafe.Claim) {
	w := p.world
	t.holder, t.inDoubt = a, true
	defer func() { a.over = true }()
	for n := range w.random.IntN(3) {
		if w.random.IntN(3) == 0 {
			asked := time.Now()
			if err := p.store.Extend(ctx, a.lease, modelLease); err == nil && !p.dead {
				a.until = asked.Add(modelLease)
			}
		}
		name := fmt.Sprint("step ", len(c.Record.Steps)+n)
		data := fmt.Sprint(name, " of ", a.lease.Owner)
		err := p.store.Checkpoint(ctx, a.lease, retrysafe.StepResult{Name: name, Data: []byte(data)})
		if p.dead || err != nil {
			return
		}
		t.steps[name] = data
	}
	switch end := w.random.IntN(6); {
	case end == 0: // it hangs until its lease has run out
		return
	case end == 1 && !w.mutant.neverAbandons:
		a.over = true
		_ = p.store.Extend(ctx, a.lease, 0)
	case end == 2:
		a.over, t.inDoubt = true, false // nothing has happened, whatever becomes of the call
		for range 2 {
			if p.store.Release(ctx, a.lease) == nil || p.dead {
				return
			}
		}
	default:
		p.complete(ctx, t, a)
	}
}

func (p *process) complete(ctx context.Context, t *truth, a *attempt) {
	w, answer := p.world, a.lease.Owner.String()
	t.offered[answer] = true
	for range 3 {
		err := p.store.Complete(ctx, a.lease, retrysafe.Result{Body: []byte(answer)}, retrysafe.Retention{Key: modelKey})
		switch {
		case p.dead, errors.Is(err, retrysafe.ErrLeaseLost):
			return
		case err == nil:
			if t.holder != a {
				w.fail("%s completes %s, and another attempt has begun since", p.name, a.lease.Key.ID)
			}
			w.checkAnswer(a.lease.Key.ID, t, answer)
			return
		}
	}
}

// checkAnswer expects every answer to be that of the first.
func (w *world) checkAnswer(id string, t *truth, answer string) {
	switch {
	case !t.offered[answer]:
		w.fail("%s has the answer %q, with which no attempt ended", id, answer)
	case t.ended && answer != t.answer:
		w.fail("%s has two answers", id)
	}
	t.ended, t.answer, t.inDoubt = true, answer, false
	w.seen["answered"]++
}

// checkStart expects that an attempt may begin.
func (w *world) checkStart(p *process, id string, t *truth, c retrysafe.Claim, takesOver bool) {
	switch h := t.holder; {
	case t.ended:
		w.fail("%s runs %s again, after it has ended", p.name, id)
	case h != nil && !h.over && !h.by.dead && time.Now().Before(h.until):
		w.fail("%s runs %s beside %s", p.name, id, h.by.name)
	case t.inDoubt && !takesOver:
		w.fail("%s runs %s, whose outcome is unknown", p.name, id)
	case c.Lease.Fence <= t.fence:
		w.fail("%s runs %s under fence %d, after %d", p.name, id, c.Lease.Fence, t.fence)
	case t.inDoubt && c.Record.Attempt < 2:
		w.fail("%s takes %s over as attempt %d", p.name, id, c.Record.Attempt)
	}
	for name, data := range t.steps {
		saved := func(s retrysafe.StepResult) bool { return s.Name == name && string(s.Data) == data }
		if !slices.ContainsFunc(c.Record.Steps, saved) {
			w.fail("%s runs %s without %s, which was saved", p.name, id, name)
		}
	}
	t.fence = c.Lease.Fence
	w.seen["started"]++
	if t.inDoubt {
		w.seen["taken over"]++
	}
}

// run lets the fleet work for so many steps of the schedule, with processes at the stages from low to high.
func (w *world) run(steps, low, high int) {
	for range steps {
		w.wait()
		if w.wrong != "" {
			return
		}
		i := w.random.IntN(len(w.fleet))
		p := w.fleet[i]
		switch n := w.random.IntN(100); {
		case n < 3 || p.stage < low:
			w.kill(p)
			w.fleet[i] = w.start(string(rune('A'+i)), low+w.random.IntN(high-low+1))
		case n < 5:
			w.sleep(modelLease + time.Second)
		case p.waiting:
			m := happens
			if n >= 100-w.faults {
				m = []mode{fails, loses, delays}[w.random.IntN(3)]
			}
			p.next <- m
		case !p.busy:
			p.busy = true
			go p.request(w.pick())
		}
		w.wait()
		w.arrive(1)
		w.sleep(time.Duration(1+w.random.IntN(100)) * time.Microsecond)
	}
}

// arrive lets the late calls happen that are due after so many steps.
func (w *world) arrive(steps int) {
	for i := 0; i < len(w.late); {
		if w.late[i].steps -= steps; w.late[i].steps > 0 {
			i++
			continue
		}
		w.late[i].do()
		w.late = slices.Delete(w.late, i, i+1)
	}
}

// wait lets the fleet run until all of it waits, and sleep lets time pass.
func (w *world) wait() {
	w.running.Unlock()
	defer w.running.Lock()
	synctest.Wait()
}

func (w *world) sleep(d time.Duration) {
	w.running.Unlock()
	defer w.running.Lock()
	time.Sleep(d)
}

// pick returns a key: mostly one of two that are worked on, and now and then one that has ended.
func (w *world) pick() string {
	if len(w.all) > 0 && w.random.IntN(4) == 0 {
		return w.all[w.random.IntN(len(w.all))]
	}
	i := w.random.IntN(len(w.active))
	if id := w.active[i]; id == "" || w.keys[id].ended && w.random.IntN(4) == 0 {
		w.active[i] = fmt.Sprint("k", len(w.all))
		w.all = append(w.all, w.active[i])
		w.keys[w.active[i]] = newTruth(0)
	}
	return w.active[i]
}

// kill ends a process as SIGKILL does.
func (w *world) kill(p *process) {
	w.logf("%s is killed", p.name)
	p.dead = true
	if p.waiting {
		p.next <- fails
	}
	w.wait()
	w.seen["killed"]++
}

// drain lets all that is running end.
func (w *world) drain() {
	for w.wrong == "" {
		w.sleep(time.Second) // those that wait for a clock
		w.wait()
		i := slices.IndexFunc(w.fleet, func(p *process) bool { return p.waiting })
		if i < 0 {
			return
		}
		w.fleet[i].next <- happens
	}
}

// forget lets every record expire.
func (w *world) forget() {
	w.drain()
	w.arrive(1000) // no call is late by a retention
	w.sleep(modelKey + 2*modelLease)
	for id, t := range w.keys {
		w.keys[id] = newTruth(t.fence)
	}
}

func newTruth(fence int64) *truth {
	return &truth{offered: map[string]bool{}, steps: map[string]string{}, fence: fence}
}

// walk moves a fleet from one store to the other. It returns what went wrong, and what happened before.
func walk(t *testing.T, seed uint64, m mutant, seen map[string]int) (wrong string, log []string) {
	synctest.Test(t, func(*testing.T) {
		w := &world{random: rand.New(rand.NewPCG(seed, 0)), mutant: m, seen: seen, keys: map[string]*truth{}}
		w.running.Lock()
		defer w.running.Unlock()
		start, skew := time.Now(), []time.Duration{0, 0}
		clock := func(i int) func() time.Duration {
			return func() time.Duration { return time.Since(start) + skew[i] }
		}
		w.old = memstore.New(memstore.Options{Clock: clock(0)})
		w.next = memstore.New(memstore.Options{Clock: clock(1)})
		skew[w.random.IntN(2)] = time.Duration(w.random.IntN(3)) * 100 * time.Millisecond
		w.takesOver = w.random.IntN(3) > 0
		w.faults = w.random.IntN(25)
		for i := range 3 {
			w.fleet = append(w.fleet, w.start(string(rune('A'+i)), 0))
		}
		for stage := range 3 {
			const steps = 60
			w.run(steps, stage, stage)
			if stage == 2 && !m.early {
				w.forget()
			}
			w.run(steps, stage, stage+1)
			w.run(steps, stage+1, stage+1)
		}
		w.drain()
		for _, p := range w.fleet {
			w.kill(p)
		}
		w.sleep(modelLease) // for those that wait for a clock
		wrong, log = w.wrong, w.log
	})
	return wrong, log
}

// Whatever the order of calls, with processes at two stages that follow each other, with crashes between any two calls,
// failed calls, lost answers, calls that happen after their callers have given them up, and with one store's clock
// behind that of the other: no key runs again after it has ended or beside a running attempt, none whose outcome is
// unknown runs unasked, every answer is the first one, no saved step is lost, and fences grow.
func TestSoakMove(t *testing.T) {
	walks, seen := soak.Times(t, 120), map[string]int{}
	for seed := range uint64(walks) {
		if wrong, log := walk(t, seed, mutant{}, seen); wrong != "" {
			t.Fatalf("seed %d: %s\n%s", seed, wrong, strings.Join(log[max(0, len(log)-120):], "\n"))
		}
	}
	for what, least := range map[string]int{
		"started": 1000, "answered": 2000, "taken over": 200, "undone": 15, "killed": 1500, "late": 500,
	} {
		if n := seen[what]; n < least*walks/100 {
			t.Errorf("%s: %d times in %d walks, want %d in 100", what, n, walks, least)
		}
	}
}

// careless takes every answer to a claim for a success.
type careless struct{ *gated }

func (s careless) Claim(ctx context.Context, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
	c, err := s.gated.Claim(ctx, p)
	if err == nil && c.Verdict != retrysafe.Acquired {
		c.Verdict = retrysafe.Acquired
		c.Lease = retrysafe.Lease{Key: p.Key, Owner: p.Owner, Fence: time.Now().UnixMicro()}
	}
	return c, err
}

// backwards completes in the store first that does not decide.
type backwards struct{ *Store }

func (s backwards) Complete(
	ctx context.Context, l retrysafe.Lease, r retrysafe.Result, keep retrysafe.Retention,
) error {
	at := s.place(l.Key.Digest())
	other, held := s.second(at, l)
	if !held {
		return s.Store.Complete(ctx, l, r, keep)
	}
	if err := at.second.Store.Complete(ctx, other, r, keep); err != nil {
		return err
	}
	_ = at.first.Store.Complete(ctx, l, r, keep)
	return nil
}

// freeing gives a lease up by releasing it.
type freeing struct{ *Store }

func (s freeing) Extend(ctx context.Context, l retrysafe.Lease, d time.Duration) error {
	if d == 0 {
		return s.Release(ctx, l)
	}
	return s.Store.Extend(ctx, l, d)
}

// forgetting forgets which leases it has given back without an answer.
type forgetting struct{ *Store }

func (s forgetting) Claim(ctx context.Context, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
	s.leases.returned = nil
	return s.Store.Claim(ctx, p)
}

// The walks find each of these mistakes.
func TestMoveModelSeesMutants(t *testing.T) {
	for name, m := range map[string]mutant{
		"stage 1 is left out: 0 beside 2":      {stages: []int{0, 0, 2, 3}},
		"stage 2 is left out: 1 beside 3":      {stages: []int{0, 1, 3, 3}},
		"the new store decides at stage 1":     {stages: []int{0, 2, 2, 3}},
		"the old store decides at stage 2":     {stages: []int{0, 1, 1, 3}},
		"the old store is dropped too early":   {early: true},
		"the other store's refusal is ignored": {wrap: func(g *gated) retrysafe.Store { return careless{g} }},
		"the other store is completed first":   {change: func(s *Store) retrysafe.Store { return backwards{s} }},
		"a lease that is given back in doubt is used again": {change: func(s *Store) retrysafe.Store {
			return forgetting{s}
		}},
		"what was taken over is given back as free": {change: func(s *Store) retrysafe.Store { return freeing{s} }},
		"no waiting for clocks": {change: func(s *Store) retrysafe.Store {
			s.sleep = func(context.Context, time.Duration) error { return nil }
			return s
		}},
	} {
		t.Run(name, func(t *testing.T) {
			const most = 800
			for seed := range uint64(most) {
				if wrong, _ := walk(t, seed, m, map[string]int{}); wrong != "" {
					t.Logf("walk %d: %s", seed, wrong)
					return
				}
			}
			t.Errorf("%d walks have not found it", most)
		})
	}
}
