package torture

import (
	"encoding/binary"
	"net"
	"sync"
	"testing"
	"time"
)

// tick is a moment in the order that the clock gives to everything: its number, the time of this machine in
// microseconds, and the newest fence of the key that a client has told the clock of.
type tick struct{ N, At, Newest int64 }

// clock gives out ticks to all clients in all processes. It is in the process of the test, which is never paused.
type clock struct {
	net.Listener

	mu     sync.Mutex // guards what follows
	n      int64
	newest [keys]int64 // fence of each key
}

// question asks for a tick after a claim of Key has been given Fence, or 0 if nothing was claimed.
type question struct{ Key, Fence int64 }

func startClock(t *testing.T) *clock {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	c := &clock{Listener: l}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go c.serve(conn)
		}
	}()
	return c
}

// serve answers one client until it is killed.
func (c *clock) serve(conn net.Conn) {
	defer conn.Close()
	for {
		var q question
		if binary.Read(conn, binary.LittleEndian, &q) != nil ||
			binary.Write(conn, binary.LittleEndian, c.tick(q)) != nil {
			return
		}
	}
}

func (c *clock) tick(q question) tick {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	newest := &c.newest[q.Key]
	*newest = max(*newest, q.Fence)
	return tick{N: c.n, At: time.Now().UnixMicro(), Newest: *newest}
}

// ask returns a tick after everything that has happened and before everything that has not begun.
func ask(conn net.Conn, key int, fence int64) (t tick, err error) {
	if err := binary.Write(conn, binary.LittleEndian, question{int64(key), fence}); err != nil {
		return t, err
	}
	return t, binary.Read(conn, binary.LittleEndian, &t)
}
