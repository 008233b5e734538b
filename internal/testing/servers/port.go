package servers

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// Ports are taken from below the range that systems give to outgoing connections (from 32768 or 49152 on). From within it, a
// client could be given the port while its server is down: the server could not come back.
const firstPort, ports = 20000, 12000

// port is a TCP port of 127.0.0.1 reserved for one instance, also while the instance does not run. The mark that other
// processes of this package respect is the UDP port of the same number: it goes when this process goes.
type port struct {
	number int
	mark   net.PacketConn
}

func reservePort() (*port, error) {
	for range 100 {
		if p, err := takePort(firstPort + rand.IntN(ports)); err == nil {
			return p, nil
		}
	}
	return nil, errors.New("servers: no free port found")
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
