package amqpsafe

import (
	"context"
	"errors"
	"net"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// DialFunc connects to RabbitMQ. It is called again after a connection was lost. The caller closes the connection. It
// must not recover by itself: RabbitMQ has given the messages of a lost connection to other consumers.
type DialFunc func(ctx context.Context) (*amqp.Connection, error)

const (
	heartbeat   = 10 * time.Second
	dialTimeout = 30 * time.Second
)

// URL returns a DialFunc for the server at an AMQP URL, with a heartbeat of 10 s.
func URL(url string) DialFunc {
	return func(ctx context.Context) (*amqp.Connection, error) {
		return amqp.DialConfig(url, amqp.Config{
			Heartbeat: heartbeat,
			Dial: func(network, address string) (net.Conn, error) {
				conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, network, address)
				if err != nil {
					return nil, err
				}
				// The deadline is for the handshake; the connection removes it when it is open.
				return conn, conn.SetDeadline(time.Now().Add(dialTimeout))
			},
		})
	}
}

// refused reports whether the server has refused the request, so that a retry will not help. A server that closes the
// connection because of wrong credentials counts too.
func refused(err error) bool {
	var e *amqp.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code {
	case amqp.AccessRefused, amqp.NotFound, amqp.PreconditionFailed, amqp.NotAllowed, amqp.ResourceLocked:
		return true
	}
	return false
}
