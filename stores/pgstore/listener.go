package pgstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe"
)

const (
	// checkTime is how long a notification of ours may take to come back before we believe that none will.
	checkTime = 2 * time.Second
	// silence is how long nothing need be heard before we look whether the connection is still there.
	silence = 30 * time.Second
	// reconnectPause is how long we wait before we connect again.
	reconnectPause = 2 * time.Second
)

var errDisconnected = errors.New("pgstore: no notifications come from the database")

// listener is the one connection that listens for the ends of attempts. It is made when somebody watches for the first time, and is
// kept until the Store is closed. When it breaks it is made again, and meanwhile those who watch poll.
type listener struct {
	config  *pgx.ConnConfig
	channel string
	pool    *pgxpool.Pool // what completions use: hello comes from there
	watches *watches

	mu        sync.Mutex
	ctx       context.Context // of the goroutine
	stop      context.CancelFunc
	started   bool
	connected bool
	tried     chan struct{} // closed once the first attempt to listen has ended
	ended     chan struct{}
}

func newListener(config *pgx.ConnConfig, channel string, pool *pgxpool.Pool, w *watches) *listener {
	e := &listener{config: config, channel: channel, pool: pool, watches: w}
	e.ctx, e.stop = context.WithCancel(context.Background())
	e.tried, e.ended = make(chan struct{}), make(chan struct{})
	return e
}

// listens reports nil if notifications come, and waits for the first attempt to have them.
func (e *listener) listens(ctx context.Context) error {
	e.mu.Lock()
	if !e.started && e.ctx.Err() == nil {
		e.started = true
		go e.run()
	}
	e.mu.Unlock()
	select {
	case <-e.tried:
	case <-e.ctx.Done():
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.connected {
		return errDisconnected
	}
	return nil
}

func (e *listener) close() {
	e.mu.Lock()
	e.stop()
	started := e.started
	e.mu.Unlock()
	if started {
		<-e.ended
	}
}

// run listens until the Store is closed.
func (e *listener) run() {
	defer close(e.ended)
	for {
		_ = e.listen() // why it ended changes nothing: those who watch are woken, and poll until it is back
		e.setConnected(false)
		select {
		case <-time.After(reconnectPause):
		case <-e.ctx.Done():
			return
		}
	}
}

// setConnected notes whether notifications come now. Either way some may have been missed.
func (e *listener) setConnected(now bool) {
	e.mu.Lock()
	e.connected = now
	select {
	case <-e.tried:
	default:
		close(e.tried)
	}
	e.mu.Unlock()
	e.watches.wakeAll()
}

// listen returns when the connection is lost, or when nothing comes through it.
func (e *listener) listen() error {
	conn, err := pgx.ConnectConfig(e.ctx, e.config)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(e.ctx)) }()
	if _, err := conn.Exec(e.ctx, "LISTEN "+e.channel, pgx.QueryExecModeSimpleProtocol); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	if err := e.checkNotifications(conn); err != nil {
		return err
	}
	e.setConnected(true)
	for {
		if err := e.receiveOne(conn); err != nil {
			return err
		}
	}
}

// checkNotifications sends a notification the way completions go and waits until it is heard: through PgBouncer in transaction mode
// LISTEN seems to work, and nothing ever comes.
func (e *listener) checkNotifications(conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(e.ctx, checkTime)
	defer cancel()
	hello := fmt.Sprintf("hello %x", retrysafe.NewOwner())
	if _, err := e.pool.Exec(ctx, "SELECT pg_notify($1, $2)", e.channel, hello); err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return fmt.Errorf("%w: %w", errDisconnected, err)
		}
		if n.Payload == hello {
			return nil
		}
	}
}

// receiveOne passes a notification on. After a silence it makes sure that the connection is there.
func (e *listener) receiveOne(conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(e.ctx, silence)
	defer cancel()
	n, err := conn.WaitForNotification(ctx)
	switch {
	case err == nil:
		e.watches.hear(n.Payload)
		return nil
	case ctx.Err() != nil && e.ctx.Err() == nil:
		ping, cancel := context.WithTimeout(e.ctx, checkTime)
		defer cancel()
		return conn.Ping(ping)
	}
	return err
}
