//go:build linux

package matrix

import (
	"net"
	"sync"
	"testing"
)

// relay is the network between some workers and their server. Cut keeps what is sent, in one direction or in both, as a
// network does that loses packets: neither side is told, and what was sent arrives when the network is healed, or never
// if the connection has ended meanwhile.
type relay struct {
	listener net.Listener
	dial     func() (net.Conn, error)

	mu    sync.Mutex
	moved sync.Cond
	cut   map[string]bool // up: to the server, down: to the worker
	conns map[net.Conn]bool
}

func newRelay(t *testing.T, dial func() (net.Conn, error)) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{listener: l, dial: dial, cut: map[string]bool{}, conns: map[net.Conn]bool{}}
	r.moved.L = &r.mu
	t.Cleanup(func() {
		l.Close()
		r.drop()
	})
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go r.connect(conn)
		}
	}()
	return r
}

func (r *relay) address() string { return r.listener.Addr().String() }

func (r *relay) connect(client net.Conn) {
	defer client.Close()
	server, err := r.dial()
	if err != nil {
		return
	}
	defer server.Close()
	r.mu.Lock()
	r.conns[client], r.conns[server] = true, true
	r.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { r.carry("up", server, client) })
	both.Go(func() { r.carry("down", client, server) })
	both.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, client)
	delete(r.conns, server)
}

// carry passes on what from sends, once that direction is not cut. What a worker sent before it ended still arrives.
func (r *relay) carry(direction string, to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	for buffer := make([]byte, 64<<10); ; {
		n, err := from.Read(buffer)
		r.mu.Lock()
		for r.cut[direction] {
			r.moved.Wait()
		}
		r.mu.Unlock()
		if n > 0 {
			if _, failed := to.Write(buffer[:n]); failed != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// lose cuts a direction: up, down, or both.
func (r *relay) lose(direction string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range []string{"up", "down"} {
		r.cut[d] = r.cut[d] || direction == d || direction == "both"
	}
}

// heal lets everything pass.
func (r *relay) heal() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.cut)
	r.moved.Broadcast()
}

// drop breaks all connections, and heals. What was kept is lost.
func (r *relay) drop() {
	r.mu.Lock()
	for c := range r.conns {
		c.Close()
	}
	r.mu.Unlock()
	r.heal()
}
