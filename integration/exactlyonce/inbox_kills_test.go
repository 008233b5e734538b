//go:build unix

package exactlyonce

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/testing/soak"
)

// inboxBoundaries are those that a request in an inbox reaches, in this order.
var inboxBoundaries = []string{
	unaccepted, accepted, undelivered, taken, claimed, begun, written, completed, committed, responded, unmarked,
}

// boundariesOfServices are those that the services reach. One without a key has no transaction.
func (d *inboxDatabase) boundariesOfServices() []string {
	if d.completes {
		return serviceBoundaries
	}
	return []string{claimed, committed, responded}
}

// Each request that was acknowledged has one effect, whatever is killed or paused at whatever boundary; none that was
// refused has one; and those of an aggregate have theirs in the order of their acknowledgement. With SQLite, where the
// services have no keys, none has two, and the unknown ones are dead letters.
//
// RETRYSAFE_SEED repeats what was left to chance. Seen to fail with requests acknowledged before they
// are saved, and with Aggregate left out of what is saved.
func TestSoakInboxKills(t *testing.T) {
	rounds := soak.Times(t, 1)
	// A service that starts beside others takes seconds, and a proxy that has given it up starts another one.
	defer func(a, b, c time.Duration) { timeout, lease, attemptTimeout = a, b, c }(timeout, lease, attemptTimeout)
	timeout, lease, attemptTimeout = 5*time.Second, 6*time.Second, 8*time.Second
	seed := rand.Uint64N(1 << 32)
	if text := os.Getenv("RETRYSAFE_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	sum := &inboxCounts{all: map[at]*inboxCount{}}
	t.Run("all", func(t *testing.T) {
		for name, open := range map[string]func(*testing.T) *inboxDatabase{
			"PostgreSQL": inPostgres, "MariaDB": inMariaDB, "SQLite": inSQLite,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := newInboxStand(t, open(t), sum, seed)
				strikes := 0
				for range s.rounds(rounds) {
					strikes += s.round(rounds > 1)
				}
				s.mustBeRight(strikes)
			})
		}
	})
	sum.print(t, seed)
}

// rounds returns how many rounds take as long as so many with a server: with a file there is half as much to strike.
func (s *inboxStand) rounds(n int) int {
	if s.server == nil && n > 1 {
		return 2 * n
	}
	return n
}

// round strikes once for each victim and boundary, and n requests of each language; or, if it is not thorough, five times
// that are left to chance. It returns how often it has struck.
func (s *inboxStand) round(thorough bool) (strikes int) {
	s.Helper()
	var all []at
	for _, victim := range []string{proxyKilled, proxyPaused, databaseKilled, databasePaused} {
		for _, boundary := range []string{unaccepted, accepted, undelivered, taken, claimed, begun, written, completed, committed, unmarked} {
			isInService := slices.Contains(serviceBoundaries, boundary)
			switch {
			case s.server == nil && victim == databaseKilled: // what kills SQLite kills the proxy
			case isInService && !slices.Contains(s.boundariesOfServices(), boundary):
			default:
				all = append(all, at{victim, boundary})
			}
		}
	}
	s.dice.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	n := 2
	if s.server == nil {
		n = 3 // so that as many requests are struck as with a server
	}
	if thorough {
		strikes = s.hitServices(s.boundariesOfServices(), []string{serviceKilled, servicePaused}, n)
	} else {
		n, all = 1, all[:5]
		strikes = s.hitServices([]string{claimed, committed}, []string{serviceKilled}, n)
	}
	for _, p := range all {
		s.hit(p.victim, p.boundary, n)
	}
	return strikes + len(all)
}

// hit strikes while n requests of each language stand at a boundary.
func (s *inboxStand) hit(victim, boundary string, n int) {
	s.Helper()
	all := s.begin(victim, boundary, n)
	switch {
	case boundary == unaccepted:
		s.hitLocked(victim, all)
	case boundary == undelivered:
		s.hitUndelivered(victim, all)
	case boundary == unmarked && s.completes:
		s.hitUnmarked(victim, all)
	case boundary == accepted, boundary == taken, boundary == unmarked:
		all = s.hitFrozen(victim, boundary, n, all)
	default:
		standing := s.lead(all, boundary)
		s.strike(victim, false, proceedAll(standing))
		endAll(standing)
	}
	for _, r := range all {
		<-r.done
	}
}

// lead starts requests, and waits until their services stand at a boundary. Only the first proxy delivers meanwhile.
func (s *inboxStand) lead(all []*request, boundary string) (standing []*process) {
	resume := s.stopOthers()
	defer resume()
	var mu sync.Mutex
	atOnce(len(all), all, func(r *request) {
		if p := s.leadOne(r, boundary); p != nil {
			mu.Lock()
			defer mu.Unlock()
			standing = append(standing, p)
		}
	})
	return standing
}

// leadOne starts a request; nil: its service does not come to the boundary in time.
func (s *inboxStand) leadOne(r *request, boundary string) (p *process) {
	arrived := s.arm(r.order, boundary)
	s.start(r)
	select {
	case p = <-arrived:
	case <-time.After(5 * timeout):
		p = s.disarm(r.order, boundary, arrived)
	}
	r.struck = p != nil
	return p
}

func proceedAll(standing []*process) func() {
	return func() {
		for _, p := range standing {
			p.proceed()
		}
	}
}

func endAll(standing []*process) {
	for _, p := range standing {
		<-p.ended
	}
}

// hitServices kills and pauses n services of each language at each boundary. It returns how many.
func (s *inboxStand) hitServices(boundaries, victims []string, n int) (strikes int) {
	s.Helper()
	var all []*request
	for _, victim := range victims {
		for _, boundary := range boundaries {
			all = append(all, s.begin(victim, boundary, n)...)
		}
	}
	atOnce(6, all, func(r *request) {
		p := s.leadOne(r, r.boundary)
		<-r.done
		if p == nil {
			return
		}
		if r.victim == serviceKilled {
			s.signal(p, syscall.SIGKILL)
		} else {
			s.signal(p, syscall.SIGSTOP)
			p.proceed()
			pause(s.Context(), lease*4/3)
			s.signal(p, syscall.SIGCONT)
		}
		<-p.ended
	})
	return len(all)
}

// hitLocked strikes while requests wait for the database to accept them.
func (s *inboxStand) hitLocked(victim string, all []*request) {
	s.Helper()
	release := s.lockTable()
	s.start(all...)
	if s.waiting != "" {
		s.eventually("a request waits for the database", func(ctx context.Context) error {
			n := 0
			if err := s.db.QueryRowContext(ctx, s.waiting).Scan(&n); err != nil || n > 0 {
				return err
			}
			return fmt.Errorf("none does")
		})
	}
	pause(s.Context(), 100*time.Millisecond) // the others come, too
	for _, r := range all {
		r.struck = !r.accepted.Load()
		if !r.struck {
			s.Errorf("%s was acknowledged while the database was locked", r.order)
		}
	}
	if s.server == nil && victim == databasePaused { // it is locked
		pause(s.Context(), lease*4/3)
		release()
		return
	}
	s.strike(victim, false, release)
}

// hitUndelivered strikes while requests that were acknowledged wait, because an operator has paused their route.
func (s *inboxStand) hitUndelivered(victim string, all []*request) {
	s.Helper()
	s.eachTopic("pause", s.box.Pause)
	s.start(all...)
	for _, r := range all {
		<-r.done
		r.struck = r.accepted.Load()
	}
	s.strike(victim, false, func() {
		s.eachTopic("resume", func(ctx context.Context, topic string) error {
			_, err := s.box.Resume(ctx, topic)
			return err
		})
	})
}

// hitUnmarked strikes while the marks of requests wait for the database, because the test has locked the table after the
// services have committed.
func (s *inboxStand) hitUnmarked(victim string, all []*request) {
	s.Helper()
	standing := s.lead(all, committed)
	for _, r := range all {
		<-r.done // no client waits for the table
	}
	release := s.lockTable()
	proceedAll(standing)()
	endAll(standing)
	pause(s.Context(), 50*time.Millisecond) // the first proxy gets the answers
	s.strike(victim, false, release)
}

// hitFrozen strikes when the first proxy was stopped while requests stood at a boundary. It is stopped and continued in
// short turns until that is so.
func (s *inboxStand) hitFrozen(victim, boundary string, n int, all []*request) []*request {
	s.Helper()
	var standing []*request
	for range 20 {
		resume := s.stopOthers()
		s.start(all...)
		standing = s.freeze(all, boundary)
		resume()
		if len(standing) > 0 {
			break
		}
		for _, r := range all {
			<-r.done
		}
		all = s.begin(victim, boundary, n)
	}
	if len(standing) == 0 {
		s.Errorf("no request was found to stand %s", boundaryNames[boundary])
		s.start(all...)
		return all
	}
	for _, r := range standing {
		r.struck = true
	}
	s.strike(victim, true, func() { s.proxies[0].signalIfAlive(syscall.SIGCONT) })
	return all
}

// freeze stops the first proxy while some of the requests stand at the boundary, and returns these; none if all have
// passed it. Then the proxy continues.
func (s *inboxStand) freeze(all []*request, boundary string) (standing []*request) {
	p := s.proxies[0]
	for late := time.Now().Add(2 * timeout); time.Now().Before(late); {
		p.signal(syscall.SIGSTOP)
		pause(s.Context(), 2*time.Millisecond) // what it has sent arrives
		standing, beyond := s.look(all, boundary)
		if len(standing) > 0 {
			return standing
		}
		p.signal(syscall.SIGCONT)
		if beyond == len(all) {
			return nil
		}
		pause(s.Context(), time.Duration(s.dice.IntN(1500))*time.Microsecond)
	}
	return nil
}

// strike kills or pauses the first proxy or the database, and lets what stands at the boundary proceed. If the proxy is
// frozen, proceed continues it.
func (s *inboxStand) strike(victim string, frozen bool, proceed func()) {
	s.Helper()
	p := s.proxies[0]
	switch victim {
	case proxyKilled:
		p.kill()
		proceed()
		s.age()
		p.start()
	case proxyPaused:
		p.signal(syscall.SIGSTOP)
		early := !frozen && s.dice.IntN(2) == 0
		if early {
			proceed()
		}
		s.age()
		pause(s.Context(), lease*4/3)
		if !early {
			proceed()
		}
		p.signal(syscall.SIGCONT)
	case databaseKilled:
		s.server.Kill(s.T)
		s.server.Start(s.T)
		proceed()
	case databasePaused:
		var resume func()
		if s.server != nil {
			s.server.Pause(s.T)
			resume = func() { s.server.Resume(s.T) }
		} else {
			if frozen { // it may hold the lock
				proceed()
			}
			resume = s.lockTable()
		}
		proceeded := make(chan struct{})
		go func() { // it may wait for the database
			defer close(proceeded)
			proceed()
		}()
		pause(s.Context(), lease*4/3)
		resume()
		<-proceeded
	}
}
