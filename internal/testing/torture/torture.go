package torture

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Torture kills and pauses processes so many times, 25 or so if it is for make test, while they use the store, and fails the
// test if the store breaks its contract. It makes more rounds until each kind of answer has come often enough. It runs
// in parallel with other tests.
func (s Subject) Torture(t *testing.T, rounds int) {
	t.Helper()
	t.Parallel()
	s.start(t, special{}).torture(rounds, "killed", "stopped", "complete ok", "complete lost", "claim acquired",
		"claim abandoned", "claim done")
}

// SeesMutants breaks the store by each of the first n of Mutants and of RaceMutants, in parallel subtests, and fails if
// Torture or Race would not notice. A check that finds nothing proves nothing.
func (s Subject) SeesMutants(t *testing.T, n int) {
	t.Helper()
	if len(s.Mutants) == 0 {
		t.Fatal("Mutants is empty: no check of this store is known to fail")
	}
	for _, name := range s.Mutants[:min(n, len(s.Mutants))] {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// On a busy machine the shortest leases run out before the calls that some mutants break.
			for times, rounds := time.Duration(1), 80; times <= 16; times, rounds = 4*times, 2*rounds {
				if s.sees(t, name, times*s.lease(), rounds) {
					return
				}
			}
			t.Errorf("not seen")
		})
	}
	for _, name := range s.RaceMutants[:min(n, len(s.RaceMutants))] {
		t.Run("race: "+name, func(t *testing.T) {
			t.Parallel()
			s.raceSees(t, name)
		})
	}
}

// sees breaks the store by a mutant, and reports whether Torture notices within so many rounds with leases that long.
func (s Subject) sees(t *testing.T, mutant string, lease time.Duration, enough int) bool {
	t.Helper()
	s.Lease = lease
	r := s.start(t, special{mutant: mutant})
	rounds := 0
	for ; len(r.check()) == 0 && rounds < enough && !t.Failed(); rounds++ {
		r.harm()
	}
	if len(r.found) == 0 {
		r.stop()
		t.Logf("not seen in %d rounds with leases of %v: %s", rounds, lease, r)
		return false
	}
	t.Logf("seen after %d rounds with leases of %v: %s", rounds, lease, r.found[0].text)
	return true
}

// special says what is special about the processes of a run.
type special struct {
	mutant  string
	program string          // instead of this one
	clocks  []time.Duration // by how much they are wrong, in turn
}

// run is the processes that use one place, and what they have told.
type run struct {
	Subject
	special
	t       *testing.T
	place   string
	clock   *clock
	started int
	running []*process
	found   []violation

	mu       sync.Mutex // guards what follows
	events   [keys][]event
	judged   [keys]bool // and early events were forgotten, without which the rest cannot be
	failures []violation
	count    map[string]int
}

func (s Subject) start(t *testing.T, sp special) *run {
	t.Helper()
	r := &run{
		Subject: s, special: sp, t: t, place: s.Place(t), clock: startClock(t),
		count: map[string]int{},
	}
	t.Cleanup(r.stop)
	r.startAll()
	return r
}

func (r *run) startAll() {
	for n, _ := r.processes(); len(r.running) < n; {
		r.startOne()
	}
}

func (r *run) startOne() {
	var env []string
	if len(r.clocks) > 0 {
		env = append(env, wrongEnv+"="+r.clocks[r.started%len(r.clocks)].String())
	}
	r.started++
	p := startProcess(r.t, r.program, job{
		Subject: r.Name, Place: r.place, Mutant: r.mutant, Clock: r.clock.Addr().String(), Lease: r.lease(),
	}, env...)
	r.running = append(r.running, p)
	p.hear(r.t, r.hear)
}

// torture harms processes in so many rounds, and in more until each of these has happened often enough; or until
// something is wrong.
func (r *run) torture(rounds int, wanted ...string) {
	r.t.Helper()
	const often = 5
	n := 0
	for ; n < rounds || n < 20*rounds && r.rarest(wanted) < often; n++ {
		r.harm()
		if r.t.Failed() || r.hasFailed() || n%100 == 99 && len(r.check()) > 0 {
			break
		}
	}
	r.stop()
	r.check()
	r.judge()
	for _, v := range r.found {
		r.t.Errorf("%s\n%s%s", v.text, r.contradiction(v), r.excerpt(v))
	}
	if len(r.found) == 0 && r.rarest(wanted) < often {
		r.t.Errorf("want %d times each: %s", often, strings.Join(wanted, ", "))
	}
	r.t.Logf("%d rounds: %s", n, r)
}

// rarest is how often that has happened which has happened least.
func (r *run) rarest(wanted []string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	least := math.MaxInt
	for _, what := range wanted {
		least = min(least, r.count[what])
	}
	return least
}

func (r *run) hear(line []byte) {
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		r.t.Errorf("%s: %v", line, err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.Op == "failed" {
		r.failures = append(r.failures, violation{text: "a call returned an error: " + e.Text})
		return
	}
	r.events[e.Key] = append(r.events[e.Key], e)
	if !e.Trying {
		r.count[strings.TrimSpace(e.Op+" "+e.Answer)]++
		if off := time.Duration(e.Clock-e.Began.At) * time.Microsecond; off.Abs() > 59*time.Minute {
			r.count[wrongBy(off.Round(time.Hour))]++
		}
	}
}

func (r *run) hasFailed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.failures) > 0
}

func (r *run) note(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count[what]++
}

// harm does something to a process, and lets the others work meanwhile.
func (r *run) harm() {
	if r.Harm != nil && rand.IntN(3) == 0 {
		r.Harm()
		r.note("server harmed")
		time.Sleep(rand.N(2 * r.lease()))
		return
	}
	i := rand.IntN(len(r.running))
	victim := r.running[i]
	if rand.IntN(4) > 0 { // otherwise it may not even have opened the store
		<-victim.works
	}
	if rand.IntN(4) == 0 {
		r.running = slices.Delete(r.running, i, i+1)
		victim.kill(r.t)
		r.startOne()
		r.note("killed")
	} else {
		if err := victim.pause(); err != nil {
			r.t.Fatal(err)
		}
		time.Sleep(rand.N(4 * r.lease())) // it may outlast its leases
		if err := victim.resume(); err != nil {
			r.t.Fatal(err)
		}
		r.note("stopped")
	}
	time.Sleep(rand.N(2 * r.lease()))
}

func (r *run) stop() {
	for _, p := range r.running {
		p.kill(r.t)
	}
	r.running = nil
}

// check looks at all that has happened. If something seems wrong, it ends all processes and looks again, once
// everything has been heard that they had to say.
func (r *run) check() []violation {
	if len(r.found) > 0 {
		return r.found
	}
	r.found = r.look()
	if len(r.found) > 0 && len(r.running) > 0 {
		r.stop()
		r.note("looked twice")
		if r.found = r.look(); len(r.found) == 0 {
			r.startAll()
		}
	}
	return r.found
}

// look checks the events of each key, and forgets what is long past.
func (r *run) look() (all []violation) {
	const many = 3000
	r.mu.Lock()
	defer r.mu.Unlock()
	all = slices.Clone(r.failures)
	for k, events := range r.events {
		all = append(all, r.rules().check(events)...)
		if len(events) > 2*many && len(all) == 0 {
			old := events[len(events)-many].Fence
			all, r.judged[k] = append(all, r.judgeKey(k)...), true
			r.events[k] = slices.DeleteFunc(slices.Clone(events), func(e event) bool { return e.Fence < old })
		}
	}
	return all
}

// judge adds to what was found what no order of the calls explains.
func (r *run) judge() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k := range r.events {
		r.found = append(r.found, r.judgeKey(k)...)
	}
}

// judgeKey judges the events of a key, unless it has been judged. It counts those that it is sure of.
func (r *run) judgeKey(k int) []violation {
	if r.judged[k] {
		return nil
	}
	wrong, sure := r.rules().judge(r.events[k])
	if sure {
		r.count["judged"] += len(r.events[k])
	} else {
		r.count["not judged"] += len(r.events[k])
	}
	return wrong
}

func (r *run) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for _, what := range slices.Sorted(maps.Keys(r.count)) {
		all = append(all, fmt.Sprintf("%s %d", what, r.count[what]))
	}
	return strings.Join(all, ", ")
}

// excerpt is what was reported of the key that a violation names, shortly before and after it.
func (r *run) excerpt(v violation) string {
	const near = 2000 // ticks
	var lines []string
	for _, e := range r.events[v.key] {
		if e.Began.N > v.at-near && e.Began.N < v.at+near {
			lines = append(lines, fmt.Sprintf("%+v", e))
		}
	}
	return strings.Join(lines, "\n")
}
