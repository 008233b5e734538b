//go:build unix

package languages

import (
	"io"
	"net"
	"net/url"
	"sync"
)

// network is what the program's connections to the database go through.
type network struct {
	mu    sync.Mutex
	conns []*net.TCPConn // of the program
}

// through returns the URL of a database with the address of a new network.
func (n *network) through(s *shop, database string) string {
	s.Helper()
	u, err := url.Parse(database)
	if err != nil {
		s.Fatal(err)
	}
	server := u.Host
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if to, err := net.Dial("tcp", server); err == nil {
				n.mu.Lock()
				n.conns = append(n.conns, conn.(*net.TCPConn))
				n.mu.Unlock()
				go forward(to, conn)
				go forward(conn, to)
			}
		}
	}()
	u.Host = l.Addr().String()
	return u.String()
}

func forward(to, from net.Conn) {
	_, _ = io.Copy(to, from) // it ends when one of the two is closed
	to.Close()
	from.Close()
}

// cut resets all connections.
func (n *network) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, conn := range n.conns {
		_ = conn.SetLinger(0)
		conn.Close()
	}
	n.conns = nil
}
