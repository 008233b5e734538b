package outbox

import (
	"context"
	"sync"
	"time"
)

// Circuit is what relays know of a receiver that cannot be reached: a circuit breaker. Relays that send to the same
// receiver share one, so that one message at a time, of all of them, tries whether the receiver is back. The zero value is
// ready to use.
//
// It opens when five messages in a row could not be sent at all: see Untried. Then one message is tried, and after each
// that fails in the same way there is a pause, which doubles from 100 ms to 10 s. It closes when a message was sent,
// whatever the answer, and then all relays go on at once.
type Circuit struct {
	mu sync.Mutex
	// refused is how many messages in a row could not be sent at all, and rests how many pauses there were since.
	refused, rests int
	until          time.Time     // the end of the pause
	probing        bool          // a message is being tried
	changed        chan struct{} // closed when those that wait have to look again; nil: none waits
}

// unreachable is the number of messages in a row that could not be sent at all, which opens a Circuit.
const unreachable = 5

// How long relays pause while their receiver cannot be reached.
const (
	shortestRest = 100 * time.Millisecond
	longestRest  = 10 * time.Second
)

// enter waits until messages may be sent. If probe is true, it is one only, of which the caller reports the end, or
// that there was none. ok is false if ctx has ended.
func (c *Circuit) enter(ctx context.Context) (probe, ok bool) {
	for ctx.Err() == nil {
		c.mu.Lock()
		rest := time.Until(c.until)
		isOpen, free := c.refused >= unreachable, !c.probing && rest <= 0
		if isOpen && free {
			c.probing = true
		}
		if c.changed == nil {
			c.changed = make(chan struct{})
		}
		changed := c.changed
		c.mu.Unlock()
		if !isOpen || free {
			return isOpen, true
		}
		var over <-chan time.Time
		if rest > 0 {
			over = time.After(rest)
		}
		select {
		case <-over:
		case <-changed:
		case <-ctx.Done():
		}
	}
	return false, false
}

// giveBack says that the caller of enter has no message to try.
func (c *Circuit) giveBack(probe bool) {
	if probe {
		c.note(nil, true)
	}
}

// note learns of messages that were sent, or could not be. It reports whether the circuit is open.
func (c *Circuit) note(done []ended, probe bool) (isOpen bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	wasOpen, failed := c.refused >= unreachable, false
	for _, e := range done {
		switch {
		case e.late, saysNothing(e.answer):
		case isUntried(e.answer):
			failed = true
			c.refused++
		default:
			c.refused, c.rests = 0, 0
		}
	}
	isOpen = c.refused >= unreachable
	if isOpen && failed && (probe || !wasOpen) {
		c.until = time.Now().Add(min(shortestRest<<min(c.rests, 10), longestRest))
		c.rests++
	}
	if probe {
		c.probing = false
	}
	if (probe || wasOpen && !isOpen) && c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
	return isOpen
}

func (c *Circuit) isOpen() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refused >= unreachable
}
