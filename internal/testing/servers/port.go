package servers

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// Ports are below the range of outgoing connections, which starts at 32768 or 49152. Within that range a client could
// get the port while its server is down, and the server could not be started again.
const firstPort, ports = 20000, 12000

// port is a TCP port of 127.0.0.1 that is reserved for one instance, also while the server is down. The reservation,
// which other processes of this package respect, is the UDP port with the same number. It ends with this process.
type port struct {
	number int
	mark   net.PacketConn
}

// ReservePort returns the number of a TCP port of 127.0.0.1 for a program that has to be told one. No other test gets it
// until t has ended.
func ReservePort(t testing.TB) int {
	t.Helper()
	p, err := reservePort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.release() })
	return p.number
}

func reservePort() (*port, error) {
	for range 100 {
		if p, err := takePort(firstPort + rand.IntN(ports)); err == nil {
			return p, nil
		}
	}
	return nil, errors.New("servers: no free port between 20000 and 31999")
}

func takePort(number int) (*port, error) {
	address := fmt.Sprintf("127.0.0.1:%d", number)
	mark, err := net.ListenPacket("udp", address)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, errors.Join(err, mark.Close())
	}
	return &port{number, mark}, listener.Close()
}

func (p *port) release() error { return p.mark.Close() }
