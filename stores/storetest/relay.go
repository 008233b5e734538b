package storetest

import (
	"io"
	"net"
	"sync"
	"testing"
)

// relay passes connections on to a server. It cuts one when the server has answered, so that the answer is lost.
type relay struct {
	net.Listener
	server string

	mu      sync.Mutex
	answers int // so many more are passed on before one is lost; negative: none is lost
	lost    int
}

func startRelay(t *testing.T, server string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	r := &relay{Listener: l, server: server, answers: -1}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go r.pass(client)
		}
	}()
	return r
}

// cutAt has the relay pass so many answers on, lose the next one, and break its connection; once. A negative number
// means that it breaks none.
func (r *relay) cutAt(answers int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers, r.lost = answers, 0
}

// cuts is how many connections were broken since cutAt.
func (r *relay) cuts() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lost
}

func (r *relay) loses() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers--
	if r.answers != -1 {
		return false
	}
	r.lost++
	return true
}

// pass ends when one of both sides does.
func (r *relay) pass(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", r.server)
	if err != nil {
		return
	}
	go func() {
		defer server.Close()
		defer client.Close()
		for b := make([]byte, 1<<16); ; {
			n, err := server.Read(b)
			if err != nil || r.loses() {
				return
			}
			if _, err := client.Write(b[:n]); err != nil {
				return
			}
		}
	}()
	defer server.Close()
	_, _ = io.Copy(server, client)
}
