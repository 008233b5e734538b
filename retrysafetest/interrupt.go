package retrysafetest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/retrysafe/retrysafe"
)

// interruption is planned for the n-th boundary from now.
type interruption struct {
	left   int
	where  string // the boundary, once it is reached
	err    error  // what calls of the attempt return from then on
	strike func() // stops the goroutine that has reached the boundary; may return
}

var (
	errKilled = fmt.Errorf("retrysafetest: the process of this attempt was killed: %w", retrysafe.ErrLeaseLost)
	errPaused = errors.New("retrysafetest: the process of this attempt is paused")
)

// KillAt runs work in a goroutine of its own and kills it at the n-th place, counted from 0, at which a process may
// die: before and after each call of Claim, Checkpoint, Complete and Release, and before and after each commit of InTx.
// It reports whether that place was reached, so that a loop visits them all:
//
//	for n := 0; store.KillAt(n, func() { send(key(n)) }); n++ {
//		send(key(n)) // the retry
//	}
//
// Killed means: the goroutine that called the Store ends there (runtime.Goexit; its deferred functions still run), the
// attempt's lease ends at once instead of after Policy.Lease, and everything that the attempt still tries is refused.
// Work is one request, which may be sent to a real server: its client then sees the connection break. Calls that other
// requests make meanwhile count as well, so run nothing beside it. KillAt returns when the goroutine has ended.
func (s *Store) KillAt(n int, work func()) (killed bool) {
	_, killed = s.killAt(n, work)
	return killed
}

func (s *Store) killAt(n int, work func()) (where string, killed bool) {
	p := s.plan(&interruption{left: n, err: errKilled, strike: runtime.Goexit})
	done := make(chan struct{})
	go func() {
		defer close(done)
		work()
	}()
	<-done
	return s.settle(p)
}

// PauseAt is like KillAt, but the process is only paused, for longer than its lease: the lease ends, meanwhile runs (a
// retry that may take the key over), and then work goes on as if nothing had happened. The effects that it still has
// show whether work that has lost its lease can do harm. PauseAt returns when work has ended.
func (s *Store) PauseAt(n int, work, meanwhile func()) (paused bool) {
	_, paused = s.pauseAt(n, work, meanwhile)
	return paused
}

func (s *Store) pauseAt(n int, work, meanwhile func()) (where string, paused bool) {
	here, resume, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	p := s.plan(&interruption{left: n, err: errPaused, strike: func() {
		close(here)
		<-resume
	}})
	go func() {
		defer close(done)
		work()
	}()
	select {
	case <-here:
		func() {
			defer close(resume) // also if meanwhile ends the test
			meanwhile()
		}()
		<-done
	case <-done:
	}
	return s.settle(p)
}

func (s *Store) plan(p *interruption) *interruption {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.planned = p
	return p
}

// settle removes an interruption that was not reached.
func (s *Store) settle(p *interruption) (where string, reached bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.planned = nil
	return p.where, p.where != ""
}

// boundary is a place at which the process of the attempt under l may be interrupted.
func (s *Store) boundary(where string, l retrysafe.Lease) {
	p := s.reach(where, l)
	if p == nil {
		return
	}
	p.strike()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.stopped, l.Owner)
}

// reach returns the interruption that is planned for this place, and ends the attempt's lease.
func (s *Store) reach(where string, l retrysafe.Lease) *interruption {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.planned
	switch {
	case p == nil:
		return nil
	case p.left > 0:
		p.left--
		return nil
	}
	s.planned, p.where, s.stopped[l.Owner] = nil, where, p.err
	_ = s.memory.Extend(context.Background(), l, 0) // fails if nothing was claimed yet, or if the attempt has ended
	return p
}

// failCommit makes the next commit of InTx fail.
func (s *Store) failCommit(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

// commitFailed reports whether a commit has failed since failCommit, and lets commits succeed.
func (s *Store) commitFailed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	failed := s.fail == nil
	s.fail = nil
	return failed
}

// gate holds attempts before their end until as many have claimed as are meant to overlap.
type gate struct {
	missing int
	owners  map[retrysafe.Owner]bool
	open    chan struct{}
}

// overlap makes attempts wait with their end until n have claimed. Call the returned function to undo that.
func (s *Store) overlap(n int) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gate = &gate{missing: n, owners: map[retrysafe.Owner]bool{}, open: make(chan struct{})}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.gate = nil
	}
}

func (g *gate) arrived(o retrysafe.Owner) {
	if g == nil || g.owners[o] || g.missing == 0 {
		return
	}
	g.owners[o] = true
	if g.missing--; g.missing == 0 {
		close(g.open)
	}
}

// awaitOthers waits until the gate is open. It gives up after a second, because a layer around the
// middleware may serve one request at a time.
func (s *Store) awaitOthers() {
	s.mu.Lock()
	g := s.gate
	s.mu.Unlock()
	if g == nil {
		return
	}
	select {
	case <-g.open:
	case <-time.After(time.Second):
	}
}
