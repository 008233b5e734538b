package proxy

import (
	"io"
	"net/http"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// client is the other end of a request: its body does not come before it is sent, or its read deadline has passed.
type client struct {
	http.ResponseWriter
	sent chan int
	cut  chan struct{}
}

func (c *client) SetReadDeadline(at time.Time) error {
	if at.Equal(time.Unix(1, 0)) {
		close(c.cut)
	}
	return nil
}

func (c *client) Read(p []byte) (int, error) {
	select {
	case n := <-c.sent:
		return n, nil
	case <-c.cut:
		return 0, os.ErrDeadlineExceeded
	}
}

func (c *client) Close() error { return nil }

// stranger has a request whose body is read until its end or until it is cut off.
func stranger(a *admission) (c *client, h *holder, entered bool) {
	c = &client{sent: make(chan int), cut: make(chan struct{})}
	h = newHolder(a, c, &http.Request{Body: c})
	if !a.enter(h, &a.effects) {
		return c, h, false
	}
	go func() {
		io.Copy(io.Discard, h)
		a.leave(h)
	}()
	return c, h, true
}

func isCut(c *client) bool {
	select {
	case <-c.cut:
		return true
	default:
		return false
	}
}

func bubble(t *testing.T, l Limits, f func(t *testing.T, a *admission)) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmission(l.withDefaults())
		f(t, a)
		synctest.Wait()
		for _, h := range slices.Clone(a.holders) {
			h.evict()
		}
	})
}

// Seen to fail with the sort in evictFor turned round.
func TestTheLongestStalledLeavesFirst(t *testing.T) {
	bubble(t, Limits{Concurrent: 3}, func(t *testing.T, a *admission) {
		var clients []*client
		for range 3 {
			c, _, _ := stranger(a)
			clients = append(clients, c)
			time.Sleep(10 * time.Second)
		}
		for range 7 { // the first makes progress
			clients[0].sent <- 1 << 10
		}
		time.Sleep(2 * time.Second)
		_, _, entered := stranger(a)
		if !entered || isCut(clients[0]) || !isCut(clients[1]) || isCut(clients[2]) {
			t.Errorf("entered %v; cut: %v, %v, %v", entered, isCut(clients[0]), isCut(clients[1]), isCut(clients[2]))
		}
	})
}

// Seen to fail with pause counting every byte as progress; and, once in fifty times, with evictFor giving up on a
// client whose byte has just arrived, as one has when the newcomer comes.
func TestAByteAtATimeIsNoProgress(t *testing.T) {
	bubble(t, Limits{Concurrent: 1}, func(t *testing.T, a *admission) {
		c, _, _ := stranger(a)
		go func() {
			for {
				select {
				case <-c.cut:
					return
				case <-time.After(100 * time.Millisecond):
				}
				select {
				case c.sent <- 1:
				case <-c.cut:
					return
				}
			}
		}()
		time.Sleep(3 * time.Second)
		_, _, entered := stranger(a)
		if !entered || !isCut(c) {
			t.Errorf("entered %v, cut %v", entered, isCut(c))
		}
	})
}

// A client that has just come is given its time, for which the newcomer waits.
func TestANewcomerWaitsForSomebodyToStall(t *testing.T) {
	bubble(t, Limits{Concurrent: 1}, func(t *testing.T, a *admission) {
		c, _, _ := stranger(a)
		synctest.Wait()
		began := time.Now()
		_, _, entered := stranger(a)
		if took := time.Since(began); !entered || took < a.patience || took > a.patience+100*time.Millisecond || !isCut(c) {
			t.Errorf("entered %v after %v, cut %v", entered, took, isCut(c))
		}
	})
}

func TestWithoutAnybodyWaitingANewcomerIsRefusedAtOnce(t *testing.T) {
	bubble(t, Limits{Concurrent: 1}, func(t *testing.T, a *admission) {
		working := newHolder(a, nil, &http.Request{})
		a.enter(working, &a.effects)
		began := time.Now()
		if _, _, entered := stranger(a); entered || time.Since(began) > 0 {
			t.Errorf("entered %v after %v", entered, time.Since(began))
		}
	})
}

// Memory of a request that waits for its client is given to others; all that was granted is given back in the end.
func TestMemoryOfTheStalledIsGivenToOthers(t *testing.T) {
	bubble(t, Limits{Concurrent: 10, Memory: 1000}, func(t *testing.T, a *admission) {
		c, stalled, _ := stranger(a)
		stalled.grow(800)
		go func() { // as httpsafe does when it has refused the request
			<-c.cut
			stalled.grow(-800)
		}()
		time.Sleep(2 * time.Second)
		working := newHolder(a, nil, &http.Request{})
		a.enter(working, &a.effects)
		if !working.grow(500) || !isCut(c) {
			t.Errorf("cut %v", isCut(c))
		}
		if working.grow(501) {
			t.Error("more was granted than there is")
		}
		working.grow(-500)
		synctest.Wait()
		if a.memory.held != 0 || len(a.holders) != 1 {
			t.Errorf("%d bytes held by %d", a.memory.held, len(a.holders))
		}
	})
}

// The table of callers is bounded: who has used least is forgotten.
func TestTheTableOfCallersIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := keyQuota{perHour: 100, buckets: map[string]bucket{}}
		for range 10 {
			if q.use("heavy", 1) != 0 {
				t.Fatal("refused too early")
			}
		}
		for i := range 3 * maxBuckets {
			q.use(string(rune(i))+"stranger", 1)
		}
		if len(q.buckets) > maxBuckets {
			t.Errorf("%d callers are kept", len(q.buckets))
		}
		if wait := q.use("heavy", 1); wait != 36*time.Second {
			t.Errorf("the heavy caller waits %v", wait)
		}
		time.Sleep(36 * time.Second)
		if wait := q.use("heavy", 1); wait != 0 {
			t.Errorf("the heavy caller still waits %v", wait)
		}
	})
}
