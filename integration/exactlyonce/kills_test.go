//go:build unix

package exactlyonce

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/testing/soak"
)

// The victims, and what happens to them.
const (
	serviceKilled  = "service, SIGKILL"
	servicePaused  = "service, SIGSTOP past the lease"
	proxyKilled    = "proxy, SIGKILL"
	proxyPaused    = "proxy, SIGSTOP past the lease"
	databaseKilled = "database server, SIGKILL"
	databasePaused = "database server, SIGSTOP past the lease"
)

// Nothing is doubled, lost or unknown, and every client gets the stored answer, whatever is killed or paused at whatever
// boundary.
//
// The control is seen to fail each time: there the completion is in a transaction of its own.
func TestSoakKills(t *testing.T) {
	c := &counts{}
	rounds := soak.Times(t, 1)
	if rounds > 1 { // two dozen orders retry at once, and a service that starts among the others takes seconds
		timeout, lease, attemptTimeout = 3*timeout, 3*lease, 3*attemptTimeout
	}
	open := func(t *testing.T, way string) *stand {
		s := newStand(t, c, way, languages()...)
		s.thorough = rounds > 1
		return s
	}
	t.Run("all", func(t *testing.T) {
		for _, way := range []string{behindProxy, alone} {
			t.Run(way+", services", func(t *testing.T) {
				t.Parallel()
				s := open(t, way)
				s.hitServices(rounds)
				s.mustBeRight()
			})
			t.Run(way+", servers", func(t *testing.T) {
				t.Parallel()
				s := open(t, way)
				for range rounds {
					s.hitAll(databaseKilled, s.killDatabase)
					if rounds > 1 {
						s.hitAll(databasePaused, s.pauseDatabase)
					}
					if way == behindProxy {
						s.hitAll(proxyKilled, s.killProxies)
						s.hitAll(proxyPaused, s.pauseProxies)
						s.hitClaims(proxyKilled, s.killProxies)
						s.hitClaims(databaseKilled, s.killDatabase)
					}
				}
				s.mustBeRight()
			})
		}
		t.Run("control", func(t *testing.T) {
			t.Parallel()
			s := open(t, control)
			s.hitServices(1)
			if wrong := s.check(); len(wrong) == 0 {
				t.Error("the ledger shows nothing although the services complete in a transaction of its own")
			}
		})
	})
	c.print(t, languages())
}

// mustBeRight fails the test if anything is wrong.
func (s *stand) mustBeRight() {
	s.Helper()
	atOnce(cap(leading), s.ops, func(o *op) { o.again(s.Context()) })
	for _, wrong := range s.check() {
		s.Error(wrong)
	}
}

// boundaries returns where a service is killed.
func (v *service) boundaries() []string {
	if v.proxies[0] != nil {
		return serviceBoundaries
	}
	return append([]string{unclaimed}, serviceBoundaries...)
}

// places returns the services and the boundaries at which they are struck. If the stand is not thorough, each boundary
// is left to every second service: they use the same functions.
func (s *stand) places() (all []place) {
	for i, v := range s.services {
		for j, b := range v.boundaries() {
			if s.thorough || (i+j)%2 == 0 {
				all = append(all, place{v, b})
			}
		}
	}
	return all
}

type place struct {
	service  *service
	boundary string
}

// hitServices kills the services n times at their places, and pauses them half as often.
func (s *stand) hitServices(n int) {
	s.Helper()
	var all []*op
	for i := range n {
		for _, at := range s.places() {
			all = append(all, s.begin(at.service, serviceKilled, at.boundary))
			if i%2 == 0 {
				all = append(all, s.begin(at.service, servicePaused, at.boundary))
			}
		}
	}
	atOnce(10, all, s.hitService)
}

// hitService kills or pauses the process that has reached the boundary with the order. A paused process has been told to
// proceed: once it continues, it does so as if nothing had happened. Some are killed instead.
func (s *stand) hitService(o *op) {
	p, answered := s.lead(o)
	if p == nil {
		return
	}
	if o.victim == serviceKilled {
		s.signal(p, syscall.SIGKILL)
	} else {
		s.signal(p, syscall.SIGSTOP)
		p.proceed()
		within(lease*3/2, answered) // it may hold the record, and then nobody else can have an answer yet
		if rand.IntN(4) == 0 {
			s.signal(p, syscall.SIGKILL)
		} else {
			s.signal(p, syscall.SIGCONT)
		}
	}
	<-answered
	<-p.ended
}

// leading are the orders of all stands whose process is on its way: more would not arrive before their clients and
// proxies have begun others.
var leading = make(chan struct{}, 2*runtime.NumCPU())

// lead starts an order, and waits until a process has arrived at its boundary; nil: none does. answered is closed when
// the client has its answer. If none arrives although the client has it, because a process was so late that another one
// took over, the next order is led there.
func (s *stand) lead(o *op) (p *process, answered chan struct{}) {
	leading <- struct{}{}
	defer func() { <-leading }()
	late := time.After(patience)
	for {
		arrived := s.arm(o.order, o.boundary)
		answered = o.start(s.Context())
		select {
		case p = <-arrived:
		case <-answered:
			select {
			case p = <-arrived: // the last boundary comes after the answer
			case <-time.After(lease):
				p = s.disarm(o.order, o.boundary, arrived)
			}
		case <-late:
			if p = s.disarm(o.order, o.boundary, arrived); p == nil {
				s.Errorf("%s does not reach %q with %s", o.language, boundaryNames[o.boundary], o.order)
				return nil, answered
			}
		}
		if p != nil {
			o.struck = true
			return p, answered
		}
		o = s.begin(o.service, o.victim, o.boundary)
	}
}

func (s *stand) signal(p *process, signal syscall.Signal) {
	// A process that has ended meanwhile needs no signal. What its order came to is checked all the same.
	if err := p.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.Errorf("%v: %v", signal, err)
	}
}

// hitAll lets an order stand at each of the places, and strikes. strike lets them proceed at some time.
func (s *stand) hitAll(victim string, strike func(proceed func())) {
	s.Helper()
	var all []*op
	for _, at := range s.places() {
		all = append(all, s.begin(at.service, victim, at.boundary))
	}
	var mu sync.Mutex
	var standing []*process
	var answers []chan struct{}
	atOnce(len(all), all, func(o *op) {
		p, answered := s.lead(o)
		mu.Lock()
		defer mu.Unlock()
		answers = append(answers, answered)
		if p != nil {
			standing = append(standing, p)
		}
	})
	strike(func() {
		for _, p := range standing {
			p.proceed()
		}
	})
	for _, answered := range answers {
		<-answered
	}
	for _, p := range standing {
		<-p.ended
	}
}

// hitClaims strikes while the claims of proxies wait in the database, because the test has locked the table.
func (s *stand) hitClaims(victim string, strike func(proceed func())) {
	s.Helper()
	s.pool.Reset() // the server may have been killed
	lock, err := s.pool.Begin(s.Context())
	if err == nil {
		_, err = lock.Exec(s.Context(), "LOCK TABLE retrysafe.claims IN SHARE MODE")
	}
	if err != nil {
		s.Fatal(err)
	}
	var all []*op
	var answers []chan struct{}
	for _, v := range s.services {
		o := s.begin(v, victim, unclaimed)
		all, answers = append(all, o), append(answers, o.start(s.Context()))
	}
	for late, waiting := time.Now().Add(patience), 0; waiting < len(all); pause(s.Context(), 10*time.Millisecond) {
		err := s.pool.QueryRow(s.Context(), "SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted").Scan(&waiting)
		if err != nil || time.Now().After(late) {
			s.Fatalf("%d claims wait, want %d: %v", waiting, len(all), err)
		}
	}
	for _, o := range all {
		o.struck = true
	}
	strike(func() { _ = lock.Rollback(context.Background()) }) // an error means that the server was killed
	for _, answered := range answers {
		<-answered
	}
}

// killProxies kills the first proxy of each service, and starts it again. The clients go to the second one.
func (s *stand) killProxies(proceed func()) {
	for _, v := range s.services {
		v.proxies[0].kill()
	}
	proceed()
	for _, v := range s.services {
		v.proxies[0].start()
	}
}

// pauseProxies pauses the first proxy of each service for longer than a lease. The services go on.
func (s *stand) pauseProxies(proceed func()) {
	for _, v := range s.services {
		v.proxies[0].signal(syscall.SIGSTOP)
	}
	if rand.IntN(2) == 0 { // their leases are over by the time they proceed
		pause(s.Context(), lease*3/2)
		proceed()
	} else {
		proceed()
		pause(s.Context(), lease*3/2)
	}
	for _, v := range s.services {
		v.proxies[0].signal(syscall.SIGCONT)
	}
}

// killDatabase kills the database server, and starts it again.
func (s *stand) killDatabase(proceed func()) {
	s.pg.Kill(s.T)
	s.pg.Start(s.T)
	proceed()
}

// pauseDatabase pauses the database server for longer than a lease.
func (s *stand) pauseDatabase(proceed func()) {
	s.pg.Pause(s.T)
	proceed()
	pause(s.Context(), lease*3/2)
	s.pg.Resume(s.T)
}

// pause is how long something stands still. It is not a wait for a condition.
func pause(ctx context.Context, d time.Duration) { within(d, ctx.Done()) }
