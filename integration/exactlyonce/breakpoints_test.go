//go:build unix

package exactlyonce

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"sync"
	"testing"
)

// The boundaries that a service reaches, in this order.
const (
	unaccepted  = "unaccepted"  // with an inbox: the write that accepts the request waits in the database
	accepted    = "accepted"    // with an inbox: the request is saved, and its client has no answer
	undelivered = "undelivered" // with an inbox: its client has the answer 202, and nothing has taken the request
	taken       = "taken"       // with an inbox: the request is taken from the table, and its key is not claimed
	unclaimed   = "unclaimed"   // with the proxy: the claim waits in the database
	claimed     = "claimed"
	begun       = "begun"
	written     = "written"
	completed   = "completed"
	committed   = "committed"
	responded   = "responded"
	unmarked    = "unmarked" // with an inbox: the service has answered, and the request is not marked as delivered
)

// serviceBoundaries are those that a service reaches behind the proxy. Without it, there is unclaimed, too.
var serviceBoundaries = []string{claimed, begun, written, completed, committed, responded}

// boundaryNames are the names in the table.
var boundaryNames = map[string]string{
	unaccepted:  "before it is accepted",
	accepted:    "accepted, before the answer 202",
	undelivered: "after the answer 202, before the delivery",
	taken:       "in the delivery, before the claim",
	unclaimed:   "before the claim",
	claimed:     "after the claim",
	begun:       "in the work",
	written:     "after the business write",
	completed:   "after `complete`",
	committed:   "between COMMIT and the answer",
	responded:   "after the answer",
	unmarked:    "after the answer, before the mark",
}

// process is a process of a service that has told of a boundary.
type process struct {
	*os.Process
	boundary string
	conn     net.Conn
	ended    chan struct{} // closed when the process has ended
}

// proceed lets the process continue.
func (p *process) proceed() { fmt.Fprintln(p.conn, "go") } // an error means that it is dead

// breakpoints hears from all services. A process that reaches a boundary continues at once, unless the boundary is
// armed.
type breakpoints struct {
	net.Listener

	mu    sync.Mutex
	armed map[breakpoint]chan<- *process
	// passing is called for each process that reaches a boundary that is not armed.
	passing func(*process)
}

type breakpoint struct{ order, boundary string }

func newBreakpoints(t *testing.T) *breakpoints {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	b := &breakpoints{Listener: l, armed: map[breakpoint]chan<- *process{}, passing: func(*process) {}}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go b.serve(conn)
		}
	}()
	return b
}

// arm makes the first process that reaches a boundary with an order wait there. It is sent on the channel.
func (b *breakpoints) arm(order, boundary string) <-chan *process {
	arrived := make(chan *process, 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.armed[breakpoint{order, boundary}] = arrived
	return arrived
}

// disarm lets all processes pass a boundary again. It returns the one that has reached it meanwhile, or nil.
func (b *breakpoints) disarm(order, boundary string, arrived <-chan *process) *process {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.armed, breakpoint{order, boundary})
	select {
	case p := <-arrived:
		return p
	default:
		return nil
	}
}

// serve hears from a process until that ends. The process waits while its ID is looked up, so the ID is its own; from
// then on a handle names it, because another process may get the same ID later.
func (b *breakpoints) serve(conn net.Conn) {
	defer conn.Close()
	p := &process{conn: conn, ended: make(chan struct{})}
	defer close(p.ended)
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		var order, boundary string
		var pid int
		if _, err := fmt.Sscan(lines.Text(), &order, &pid, &boundary); err != nil {
			return
		}
		if p.Process == nil {
			p.Process, _ = os.FindProcess(pid) // without an error on Unix
		}
		p.boundary = boundary
		b.mu.Lock()
		here := breakpoint{order, boundary}
		arrived := b.armed[here]
		delete(b.armed, here)
		if arrived != nil {
			arrived <- p // it has room for one
		}
		b.mu.Unlock()
		if arrived != nil {
			continue
		}
		b.passing(p)
		p.proceed()
	}
}
