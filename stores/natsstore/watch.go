package natsstore

import (
	"context"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/retrysafe/retrysafe"
)

// Watch returns a channel that receives a value when the key's attempt has ended or given up, in whatever process, and
// after each time that the connection was lost. It costs a subscription. stop frees what Watch holds.
//
// The server that leads the stream sends a notice when it has stored the end of an attempt. Notices are not kept: one
// that is sent while the leader changes, or before all servers know of the subscription, may be lost. So claim again
// now and then, as a Guard does.
func (s *Store) Watch(ctx context.Context, k retrysafe.Key) (changed <-chan struct{}, stop func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	c := make(chan struct{}, 1)
	wake := func() {
		select {
		case c <- struct{}{}:
		default: // it holds a value that has not been read yet
		}
	}
	subject := noticeSpace(s.options.Bucket) + k.Digest().String()
	sub, err := s.conn.Subscribe(subject, func(m *nats.Msg) {
		if m.Header.Get(endedHeader) != "" {
			wake()
		}
	})
	if err != nil {
		return nil, nil, fmt.Errorf("watch %s: %w", k, err)
	}
	connected := s.conn.StatusChanged(nats.CONNECTED) // from here on: the connection may be lost as soon as it is flushed
	stop = sync.OnceFunc(func() {
		_ = sub.Unsubscribe() // it fails only if the connection is closed
		s.conn.RemoveStatusListener(connected)
	})
	limited, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	if err := s.conn.FlushWithContext(limited); err != nil { // until the server has the subscription
		stop()
		return nil, nil, fmt.Errorf("watch %s: %w", k, err)
	}
	go func() {
		for range connected {
			wake()
		}
	}()
	return c, stop, nil
}
