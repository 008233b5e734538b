package servers

import (
	"fmt"
	"net"
	"testing"
)

// Seen to fail with the reservation taken out, and with the check for listeners taken out.
func TestPortIsReservedWhileNobodyListens(t *testing.T) {
	t.Parallel()
	p, err := reservePort()
	check(t, err)
	if _, err := takePort(p.number); err == nil {
		t.Error("taken twice")
	}
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", p.number))
	check(t, err) // the server's
	check(t, p.release())
	if _, err := takePort(p.number); err == nil {
		t.Error("taken while a server of a process that has gone still listens")
	}
	check(t, listener.Close())
	again, err := takePort(p.number)
	check(t, err)
	check(t, again.release())
}
