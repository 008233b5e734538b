package testkit

import (
	"net"
	"testing"
)

// StartRelay passes connections on to a server until the test ends, and returns the address for clients. on is called
// for each connection. What the client has sent, and what the server has answered, is passed on as long as sent and
// answered return true; otherwise the connection breaks.
func StartRelay(t testing.TB, server string, on func() (sent, answered func(b []byte) bool)) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go relay(client, server, on)
		}
	}()
	return l.Addr().String()
}

func relay(client net.Conn, address string, on func() (sent, answered func(b []byte) bool)) {
	defer client.Close()
	server, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer server.Close()
	sent, answered := on()
	go func() {
		defer client.Close()
		pass(client, server, answered)
	}()
	pass(server, client, sent)
}

func pass(to, from net.Conn, passes func(b []byte) bool) {
	for b := make([]byte, 64<<10); ; {
		n, err := from.Read(b)
		if err != nil || !passes(b[:n]) {
			return
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}
