package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
)

// ServerHarness tells RunServer about a store whose records are on a server that several processes share.
type ServerHarness struct {
	// Place returns a fresh, empty place for records, such as a database. Each rule has its own. The places may be on
	// one server, because no rules run in parallel. Required.
	Place func(t *testing.T) Place
	// Waits says that a call waits for a server that is down. Otherwise it may fail, and its caller repeats it.
	Waits bool
	// Doubts says that the store sets Claim.Doubted when it has sent a claim again. A store need not if the first copy
	// cannot take the key any more.
	Doubts bool
	// WakesAtOnce says that the first Watch of a key receives a value once it is set up.
	WakesAtOnce bool
}

// Place is where several Stores find the same records.
type Place struct {
	// Address is the host and port on which the server listens.
	Address string
	// Open returns a Store with connections of its own to address, as in another process, and closes it with t.Cleanup.
	// It does not make the place: it may be called several times. address is Address, or that of a relay in front of it.
	Open func(t *testing.T, address string) retrysafe.Store
	// Restart ends the server cleanly and starts it again, Kill ends it with SIGKILL, and Start starts it after that.
	// Nil: the server serves other tests too, and the rules about that do not run.
	Restart, Kill, Start func(t testing.TB)
	// Lock changes the record of a key in a transaction that is not committed before unlock. Nil: the store has no
	// locks that a call waits for, and the rules about that do not run.
	Lock func(t *testing.T, k retrysafe.Key) (unlock func())
	// Waiting names the statements that wait for a lock at the moment. Required with Lock.
	Waiting func(t *testing.T) []string
	// WaitsAgain says that the server ends each wait for a lock soon, and that the store then sends the statement again.
	WaitsAgain bool
}

// RunServer checks what Run cannot see with one Store: what several Stores on one server owe each other, and what
// becomes of calls when the server or a connection fails.
func RunServer(t *testing.T, h ServerHarness) {
	t.Helper()
	one := newServerKit(t, h)
	for _, r := range serverRules {
		if r.applies != nil && !r.applies(one) {
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			k := newServerKit(t, h)
			defer func() {
				if t.Failed() {
					t.Logf("the rule: %s", r.sentence)
				}
			}()
			r.check(k)
		})
	}
}

// serverKit is a kit for a Store on a server.
type serverKit struct {
	*kit
	server ServerHarness
	place  Place
}

func newServerKit(t *testing.T, h ServerHarness) *serverKit {
	p := h.Place(t)
	return &serverKit{&kit{T: t, store: p.Open(t, p.Address), ctx: context.Background()}, h, p}
}

// another returns a kit for another Store of the same place, as another process has.
func (k *serverKit) another() *kit {
	k.Helper()
	return &kit{T: k.T, store: k.place.Open(k.T, k.place.Address), ctx: k.ctx}
}

// serverRule is one sentence, and the code that checks it. applies is nil if it holds for all stores.
type serverRule struct {
	name, sentence string
	applies        func(k *serverKit) bool
	check          func(k *serverKit)
}

// patience is how long a rule waits for what must come, on a busy machine too.
const patience = time.Minute

var serverRules = []serverRule{
	{
		"woken-by-another-store", "a watch is woken by the end of an attempt at another process's Store",
		func(k *serverKit) bool { _, ok := k.store.(retrysafe.Watcher); return ok },
		wokenByAnotherStore,
	},
	{
		"restart-goes-unnoticed", "a restart of the server between calls makes none fail, and loses nothing",
		func(k *serverKit) bool { return k.place.Restart != nil },
		restartGoesUnnoticed,
	},
	{
		"kill-keeps-what-was-acknowledged",
		"a server that is killed keeps what it has acknowledged; who repeats a call that it took along finds what that did",
		func(k *serverKit) bool { return k.place.Kill != nil },
		killKeepsWhatWasAcknowledged,
	},
	{
		"answer-lost",
		"a call whose connection breaks at any moment succeeds when it is sent again, and has happened once", nil,
		answerLost,
	},
	{
		"sweeps-beside-claims",
		"callers at several Stores who fight for a few keys while others sweep get no error, and never hold one together",
		nil, sweepsBesideClaims,
	},
	{
		"locked-record-holds-up-itself", "a record that a transaction has locked holds up the calls for its own key alone",
		func(k *serverKit) bool { return k.place.Lock != nil },
		lockedRecordHoldsUpItself,
	},
	{
		"held-record-is-in-flight",
		"a claim of a key whose record a transaction holds, as that of a service between complete and COMMIT, says in flight",
		func(k *serverKit) bool { return k.place.Lock != nil },
		heldRecordIsInFlight,
	},
}

func wokenByAnotherStore(k *serverKit) {
	there := k.another()
	for name, end := range map[string]func(l retrysafe.Lease){
		"complete": func(l retrysafe.Lease) { there.complete(l, "answer", keepLonger) },
		"release":  func(l retrysafe.Lease) { there.release(l) },
		"give up":  func(l retrysafe.Lease) { there.extend(l, 0) },
	} {
		l := there.take(name)
		changed := k.watch(name)
		if k.server.WakesAtOnce {
			k.wakes(changed)
		}
		end(l) // at once: a store that polls has not looked yet
		k.wakes(changed)
		if k.Failed() {
			k.Fatalf("after %s", name)
		}
	}
}

func restartGoesUnnoticed(k *serverKit) {
	held := k.take("held")
	k.finish("done", "answer", keepLonger)
	for round := range 3 {
		if round > 0 {
			k.place.Restart(k.T)
		}
		together(crowd, func(i int) {
			id := fmt.Sprint(round, " ", i)
			c, err := k.store.Claim(k.ctx, params(id))
			if err != nil || c.Verdict != retrysafe.Acquired {
				k.Errorf("after %d restarts: Claim: got %v, %v", round, c.Verdict, err)
			} else if err := k.store.Complete(k.ctx, c.Lease, result(id), keepLonger); err != nil {
				k.Errorf("after %d restarts: Complete: %v", round, err)
			}
			if round == 0 && c.Doubted {
				k.Error("a claim is doubted without a reason")
			}
		})
	}
	k.replays("done", "answer")
	equal(k.kit, "lease", k.take("held", by(held.Owner)), held)
}

func killKeepsWhatWasAcknowledged(k *serverKit) {
	var mu sync.Mutex
	acknowledged, failed := map[string]retrysafe.Lease{}, 0
	count := func() int { mu.Lock(); defer mu.Unlock(); return len(acknowledged) }
	again := func(call func() error) error { // repeats a call until it has an answer
		for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
			err := call()
			if err == nil || errors.Is(err, retrysafe.ErrLeaseLost) || time.Now().After(end) {
				return err
			}
			mu.Lock()
			failed++
			mu.Unlock()
		}
	}
	var stop atomic.Bool
	var callers sync.WaitGroup
	for i := range crowd / 2 {
		callers.Go(func() {
			for n := 0; !stop.Load() && !k.Failed(); n++ {
				p := params(fmt.Sprint(i, " ", n))
				var c retrysafe.Claim
				err := again(func() (err error) { c, err = k.store.Claim(k.ctx, p); return err })
				if err != nil || c.Verdict != retrysafe.Acquired || c.Record.Attempt != 1 {
					k.Errorf("Claim: got %v, attempt %d, %v; want that it is acquired once", c.Verdict, c.Record.Attempt, err)
					return
				}
				err = again(func() error { return k.store.Complete(k.ctx, c.Lease, result(p.Key.ID), keepLonger) })
				if err != nil {
					k.Errorf("Complete: %v", err)
					return
				}
				mu.Lock()
				acknowledged[p.Key.ID] = c.Lease
				mu.Unlock()
			}
		})
	}
	more := func(n int) {
		before := count()
		k.eventually("more keys are done", func() bool { return k.Failed() || count() >= before+n })
	}
	more(5 * crowd)
	k.place.Kill(k.T)
	k.place.Start(k.T)
	more(5 * crowd)
	stop.Store(true)
	callers.Wait()
	if k.server.Waits {
		equal(k.kit, "calls that failed", failed, 0)
	}
	for id, l := range acknowledged {
		equal(k.kit, "fence", k.replays(id, id).Fence, l.Fence)
	}
	k.Logf("%d acknowledged, %d failed", len(acknowledged), failed)
}

// eventually waits until a condition holds that causes no event.
func (k *kit) eventually(what string, so func() bool) {
	k.Helper()
	for end := time.Now().Add(patience); !so(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			k.Fatalf("not so after %v: %s", patience, what)
		}
	}
}

func answerLost(k *serverKit) {
	relay := startRelay(k.T, k.place.Address)
	k.store = k.place.Open(k.T, relay.Addr().String())
	p, l := retrysafe.ClaimParams{}, retrysafe.Lease{}
	for _, c := range []struct {
		name string
		call func() error
		then func()
	}{
		{"Claim", func() error {
			got, err := k.store.Claim(k.ctx, p)
			if err == nil && (got.Verdict != retrysafe.Acquired || got.Lease.Owner != p.Owner || got.Record.Attempt != 1) {
				k.Errorf("Claim: got %v, attempt %d, want its own lease", got.Verdict, got.Record.Attempt)
			}
			if err == nil && relay.cuts() > 0 && k.server.Doubts && !got.Doubted {
				k.Error("Claim: it was sent again, and does not say so")
			}
			return err
		}, func() { k.complete(k.take(p.Key.ID, by(p.Owner)), "answer", keepLonger) }},
		{"Extend", func() error { return k.store.Extend(k.ctx, l, time.Hour) }, func() {
			k.near("LeaseLeft", k.find(retrysafe.InFlight, p.Key.ID).LeaseLeft, time.Hour)
		}},
		{"Checkpoint", func() error { return k.store.Checkpoint(k.ctx, l, step("a", "1")) }, func() {
			k.steps(k.acquire(p.Key.ID, by(l.Owner)).Record.Steps, "a=1")
		}},
		{"Complete", func() error { return k.store.Complete(k.ctx, l, result("answer"), keepLonger) }, func() {
			k.complete(l, "another", keepLonger)
			k.replays(p.Key.ID, "answer")
		}},
		{"Release", func() error { return k.store.Release(k.ctx, l) }, func() {
			k.grows(l.Fence, k.take(p.Key.ID).Fence)
		}},
	} {
		for answers := 0; ; answers++ {
			p = params(fmt.Sprint(c.name, " ", answers))
			if c.name != "Claim" {
				l = k.claim(p).Lease
			}
			relay.cutAt(answers)
			err := c.call()
			cut := relay.cuts() > 0
			if cut && err != nil { // a caller repeats what has failed, and never for another outcome
				if errors.Is(err, retrysafe.ErrLeaseLost) {
					k.Errorf("%s, cut at answer %d: %v", c.name, answers, err)
				}
				relay.cutAt(-1)
				err = c.call()
			}
			relay.cutAt(-1)
			k.must(fmt.Sprintf("%s, cut at answer %d", c.name, answers), err)
			c.then()
			if !cut {
				if answers == 0 {
					k.Errorf("%s: nothing was cut", c.name)
				}
				break // it needs no more answers
			}
		}
	}
}

func sweepsBesideClaims(k *serverKit) {
	const keys, rounds, callers, sweepers = 9, 20, 60, 4
	stores := []retrysafe.Store{k.store, k.another().store, k.another().store}
	var inside, fence [keys]atomic.Int64
	var acquired atomic.Int64
	fight := func(s retrysafe.Store, round, n int) error {
		c, err := s.Claim(k.ctx, params(fmt.Sprint(n), takingOver))
		if err != nil || c.Verdict != retrysafe.Acquired {
			return err
		}
		acquired.Add(1)
		if inside[n].Add(1) != 1 {
			k.Errorf("two attempts hold key %d", n)
		}
		if before := fence[n].Swap(c.Lease.Fence); before >= c.Lease.Fence {
			k.Errorf("fence: got %d after %d, want a larger one", c.Lease.Fence, before)
		}
		err = s.Extend(k.ctx, c.Lease, leaseTime)
		inside[n].Add(-1)
		if round%5 == 0 { // to be swept at once
			keep := retrysafe.Retention{Replay: 1, Key: 1, Audit: 1}
			return errors.Join(err, s.Complete(k.ctx, c.Lease, result("answer"), keep))
		}
		return errors.Join(err, s.Release(k.ctx, c.Lease))
	}
	together(callers+sweepers, func(i int) {
		s := stores[i%len(stores)]
		for round := range rounds {
			var err error
			if sweeper, ok := s.(retrysafe.Sweeper); i >= callers && ok {
				_, err = sweeper.Sweep(k.ctx, 10)
			} else {
				err = fight(s, round, (round*7+i*3)%keys)
			}
			if err != nil {
				k.Error(err)
				return
			}
		}
	})
	if acquired.Load() < 2*keys {
		k.Errorf("%d keys acquired: that is no storm", acquired.Load())
	}
}

func lockedRecordHoldsUpItself(k *serverKit) {
	const locked = 3 // more than the store's workers, if it has two
	answered, unlocks := make(chan error, locked), []func(){}
	for i := range locked {
		l := k.take(fmt.Sprint("locked ", i))
		unlocks = append(unlocks, k.place.Lock(k.T, l.Key))
		go func() { answered <- k.store.Extend(k.ctx, l, leaseTime) }()
	}
	k.eventually("a call waits", func() bool { return len(k.place.Waiting(k.T)) > 0 })
	together(crowd, func(i int) {
		id := fmt.Sprint("other ", i)
		c, err := k.store.Claim(k.ctx, params(id))
		if err == nil {
			err = k.store.Complete(k.ctx, c.Lease, result(id), keepLonger)
		}
		if err != nil {
			k.Errorf("a call for another key: %v", err)
		}
	})
	if first := k.place.Waiting(k.T); k.place.WaitsAgain {
		k.eventually("another statement waits", func() bool {
			for _, now := range k.place.Waiting(k.T) {
				if !slices.Contains(first, now) {
					return true
				}
			}
			return false
		})
	}
	equal(k.kit, "calls for locked records that did not wait", len(answered), 0)
	for _, unlock := range unlocks {
		unlock()
	}
	for range locked {
		if err := <-answered; err != nil {
			k.Errorf("after the record was free: %v", err)
		}
	}
}

func heldRecordIsInFlight(k *serverKit) {
	held := k.take("held")
	inFlight := func(lease string) {
		k.Helper()
		if r := k.find(retrysafe.InFlight, "held", takingOver); r.LeaseLeft <= 0 {
			k.Errorf("while the lease %s: %v of it are left, want a moment at least", lease, r.LeaseLeft)
		}
	}
	var cancel context.CancelFunc
	k.ctx, cancel = context.WithTimeout(k.ctx, patience/3) // less than a store waits for an answer
	defer cancel()
	unlock := k.place.Lock(k.T, held.Key)
	inFlight("runs")
	unlock()
	k.extend(held, 0)
	unlock = k.place.Lock(k.T, held.Key)
	inFlight("has run out")
	if ender, ok := k.store.(retrysafe.LeaseEnder); ok {
		err := ender.EndLease(k.ctx, held.Key.Digest(), held.Fence)
		if !errors.Is(err, retrysafe.ErrNotAbandoned) {
			k.Errorf("EndLease: got %v, want ErrNotAbandoned", err)
		}
	}
	unlock()
	k.grows(held.Fence, k.take("held", takingOver).Fence)
}
