package clients

import (
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// fate is where the network cuts the connection of an exchange.
type fate int

const (
	intact        fate = iota
	beforeRequest      // nothing of the request arrives
	midRequest         // half of it does
	afterRequest       // all of it, and the client is gone at once
	beforeAnswer       // the answer is lost
	midAnswer          // half of it arrives
	fates
)

func (f fate) String() string {
	return [...]string{
		"intact", "before the request", "in the request", "after the request", "before the answer",
		"in the answer",
	}[f]
}

// network is a TCP proxy that cuts the connections of a share of all exchanges. An exchange is what a client sends
// until the server answers, and the answer; HTTP/1.1 without pipelining is made of such exchanges.
type network struct {
	*testing.T
	listener net.Listener
	server   atomic.Value // its address, a string
	share    float64

	mu      sync.Mutex
	random  *rand.Rand
	counted [fates]int
}

// newNetwork listens until the test ends. The seed makes the sequence of fates; which exchange gets which one depends
// on the order in which they come.
func newNetwork(t *testing.T, share float64, seed uint64) *network {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &network{T: t, listener: listener, share: share, random: rand.New(rand.NewPCG(seed, seed))}
	var connections sync.WaitGroup
	connections.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			connections.Go(func() { n.connect(client) })
		}
	})
	t.Cleanup(func() { listener.Close() })
	return n
}

func (n *network) url() string { return "http://" + n.listener.Addr().String() }

// draw decides the fate of an exchange that begins.
func (n *network) draw() fate {
	n.mu.Lock()
	defer n.mu.Unlock()
	f := intact
	if n.random.Float64() < n.share {
		f = 1 + fate(n.random.IntN(int(fates)-1))
	}
	n.counted[f]++
	return f
}

// cuts returns how many exchanges there were, and how many of them were cut where.
func (n *network) cuts() (exchanges int, cut map[fate]int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	cut = map[fate]int{}
	for f, count := range n.counted {
		exchanges += count
		if fate(f) != intact {
			cut[fate(f)] = count
		}
	}
	return exchanges, cut
}

// connect carries one connection until either side ends it, or its fate does.
func (n *network) connect(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", n.server.Load().(string))
	if err != nil {
		return // no listener: the proxy was killed
	}
	defer server.Close()
	x := &exchange{network: n, answered: true}
	done := make(chan struct{})
	go func() {
		defer close(done)
		carry(client, server, x.answer)
		client.Close()
		server.Close()
	}()
	carry(server, client, x.request)
	client.Close()
	server.Close()
	<-done
}

// exchange is the present exchange of a connection.
type exchange struct {
	*network
	mu       sync.Mutex
	fate     fate
	answered bool // the next bytes of the client begin another exchange
}

// request returns how much of what the client has sent is passed on, and whether the connection is cut then.
func (x *exchange) request(size int) (pass int, cut bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.answered {
		x.fate, x.answered = x.draw(), false
	}
	switch x.fate {
	case beforeRequest:
		return 0, true
	case midRequest:
		return size / 2, true
	}
	return size, x.fate == afterRequest
}

// answer is the same for what the server has sent.
func (x *exchange) answer(size int) (pass int, cut bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.answered = true
	switch x.fate {
	case beforeAnswer:
		return 0, true
	case midAnswer:
		return size / 2, true
	}
	return size, false
}

// carry passes on what from sends, as far as decide lets it.
func carry(to io.Writer, from io.Reader, decide func(size int) (pass int, cut bool)) {
	buffer := make([]byte, 64<<10)
	for {
		size, err := from.Read(buffer)
		if size > 0 {
			pass, cut := decide(size)
			if _, failed := to.Write(buffer[:pass]); failed != nil || cut {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
