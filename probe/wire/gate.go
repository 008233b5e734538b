package wire

import (
	"io"
	"sync"
	"time"
)

// gate is where requests wait for each other. It opens when all have arrived, or after a while: a target may not take
// as many streams at once.
type gate struct {
	mu      sync.Mutex
	missing int
	open    chan struct{}
	late    *time.Timer
}

// newGate returns a gate that opens when n writers have arrived, or after patience.
func newGate(n int, patience time.Duration) *gate {
	g := &gate{missing: n, open: make(chan struct{})}
	g.late = time.AfterFunc(patience, g.force)
	return g
}

// arrive says that one more is at the gate, or will not come.
func (g *gate) arrive() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.missing--; g.missing == 0 {
		g.unlock()
	}
}

// force opens the gate though some are missing.
func (g *gate) force() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.missing > 0 {
		g.missing = 0
		g.unlock()
	}
}

// unlock opens the gate, once. g.mu is held.
func (g *gate) unlock() {
	g.late.Stop()
	close(g.open)
}

// gated is a body that stops before its last byte until the gate opens.
type gated struct {
	body []byte
	gate *gate

	at      int
	arrived sync.Once
	mu      sync.Mutex
	sentAt  time.Time
}

// Read returns the next part of the request. Before the last byte it waits for the gate, so that all requests of a
// burst become complete at the same moment.
func (b *gated) Read(p []byte) (int, error) {
	left := b.body[b.at:]
	if len(left) > 1 {
		left = left[:len(left)-1]
	} else {
		b.pass()
	}
	if len(left) == 0 {
		return 0, io.EOF
	}
	n := copy(p, left)
	b.at += n
	return n, nil
}

// arrive says that the last byte is due, or will not be sent.
func (b *gated) arrive() { b.arrived.Do(b.gate.arrive) }

// pass waits at the gate.
func (b *gated) pass() {
	b.arrive()
	<-b.gate.open
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sentAt.IsZero() {
		b.sentAt = time.Now()
	}
}

// since returns when the last byte was sent, or the present time if it was not.
func (b *gated) since() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sentAt.IsZero() {
		return time.Now()
	}
	return b.sentAt
}
