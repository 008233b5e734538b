package retrysafe

import (
	"sync"
	"time"
)

// line is where attempts of one Guard wait for what comes to all of them after the same time: their first heartbeat,
// their timeout. One timer serves the whole line, and who leaves before its turn has cost next to nothing.
type line struct {
	mu      sync.Mutex
	ends    place // behind the last and before the first
	timer   *time.Timer
	ticking bool
	rings   time.Time     // when timer does, while it ticks
	never   chan struct{} // see timeLimit
}

// place is where one waits in a line.
type place struct {
	waits      interface{ due() } // nil: none
	at         time.Time
	prev, next *place
}

func newLine() *line {
	l := &line{never: make(chan struct{})}
	l.ends.prev, l.ends.next = &l.ends, &l.ends
	return l
}

// join calls waits.due at its time, in a goroutine of its own, unless p leaves before.
func (l *line) join(p *place, waits interface{ due() }, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.ends.prev
	for before != &l.ends && before.at.After(at) { // joined late
		before = before.prev
	}
	*p = place{waits: waits, at: at, prev: before, next: before.next}
	p.prev.next, p.next.prev = p, p
	if !l.ticking || at.Before(l.rings) {
		l.ring(at)
	}
}

// leave gives a place up. It may have had its turn already.
func (l *line) leave(p *place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remove(p)
}

func (l *line) remove(p *place) {
	if p.waits != nil {
		p.prev.next, p.next.prev = p.next, p.prev
		*p = place{}
	}
}

// serve calls those whose time has come. The timer runs on while any wait.
func (l *line) serve() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ticking = false
	for first := l.ends.next; first != &l.ends; first = l.ends.next {
		if time.Until(first.at) > 0 {
			l.ring(first.at)
			return
		}
		go first.waits.due()
		l.remove(first)
	}
}

func (l *line) ring(at time.Time) {
	l.ticking, l.rings = true, at
	if l.timer == nil {
		l.timer = time.AfterFunc(time.Until(at), l.serve)
	} else {
		l.timer.Reset(time.Until(at))
	}
}
