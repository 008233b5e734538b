package kafkasafe_test

import (
	"context"
	"errors"
	"net"
	"sync"
)

// dialer connects until it is killed; then it and its connections are dead.
type dialer struct {
	mu    sync.Mutex
	conns []net.Conn
	dead  bool
}

var errDead = errors.New("the process is dead")

func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		conn.Close()
		return nil, errDead
	}
	d.conns = append(d.conns, conn)
	return conn, nil
}

func (d *dialer) kill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dead = true
	for _, c := range d.conns {
		c.Close()
	}
}
