package amqpsafe

import (
	"context"
	"errors"
	"net"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// DialFunc connects to RabbitMQ. It is called again whenever a connection is lost; what it returns is closed by who asked.
// The connection must not recover by itself: what was not acknowledged on a lost one is somebody else's by then.
type DialFunc func(ctx context.Context) (*amqp.Connection, error)

const (
	heartbeat   = 10 * time.Second
	dialTimeout = 30 * time.Second
)

// URL connects to the server at an AMQP URL, with a heartbeat of 10 s.
func URL(url string) DialFunc {
	return func(ctx context.Context) (*amqp.Connection, error) {
		return amqp.DialConfig(url, amqp.Config{
			Heartbeat: heartbeat,
			Dial: func(network, address string) (net.Conn, error) {
				conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, network, address)
				if err != nil {
					return nil, err
				}
				// For the handshake; the connection lifts it once it is open.
				return conn, conn.SetDeadline(time.Now().Add(dialTimeout))
			},
		})
	}
}

// refused reports whether the server understood and said no: trying again will not help. A server that hangs up on wrong
// credentials without a word counts too.
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
