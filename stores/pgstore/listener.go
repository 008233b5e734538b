package pgstore

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
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

// listener is the one connection that listens for the ends of attempts. It is made when somebody watches for the
// first time, and is kept until the Store is closed. When it breaks it is made again, and meanwhile those who watch
// poll.
type listener struct {
	config  *pgx.ConnConfig
	channel string
	pool    *pgxpool.Pool // what completions use: hello comes from there
	watches *storekit.Watches

	mu        sync.Mutex
	ctx       context.Context // of the goroutine
	stop      context.CancelFunc
	started   bool
	connected bool
	tried     chan struct{} // closed once the first attempt to listen has ended
	ended     chan struct{}
}

func newListener(config *pgx.ConnConfig, channel string, pool *pgxpool.Pool, w *storekit.Watches) *listener {
	l := &listener{config: config, channel: channel, pool: pool, watches: w}
	l.ctx, l.stop = context.WithCancel(context.Background())
	l.tried, l.ended = make(chan struct{}), make(chan struct{})
	return l
}

// listens reports nil if notifications come, and waits for the first attempt to have them.
func (l *listener) listens(ctx context.Context) error {
	l.mu.Lock()
	if !l.started && l.ctx.Err() == nil {
		l.started = true
		go l.run()
	}
	l.mu.Unlock()
	select {
	case <-l.tried:
	case <-l.ctx.Done():
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.connected {
		return errDisconnected
	}
	return nil
}

func (l *listener) close() {
	l.mu.Lock()
	l.stop()
	started := l.started
	l.mu.Unlock()
	if started {
		<-l.ended
	}
}

// run listens until the Store is closed.
func (l *listener) run() {
	defer close(l.ended)
	for {
		_ = l.listen() // why it ended changes nothing: those who watch are woken, and poll until it is back
		l.setConnected(false)
		select {
		case <-time.After(reconnectPause):
		case <-l.ctx.Done():
			return
		}
	}
}

// setConnected notes whether notifications come now. Either way some may have been missed.
func (l *listener) setConnected(now bool) {
	l.mu.Lock()
	l.connected = now
	select {
	case <-l.tried:
	default:
		close(l.tried)
	}
	l.mu.Unlock()
	l.watches.WakeAll()
}

// listen returns when the connection is lost, or when nothing comes through it.
func (l *listener) listen() error {
	conn, err := pgx.ConnectConfig(l.ctx, l.config)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(l.ctx)) }()
	if _, err := conn.Exec(l.ctx, "LISTEN "+l.channel, pgx.QueryExecModeSimpleProtocol); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	if err := l.checkNotifications(conn); err != nil {
		return err
	}
	l.setConnected(true)
	for {
		if err := l.receiveOne(conn); err != nil {
			return err
		}
	}
}

// checkNotifications sends a notification the way completions go and waits until it is heard: through PgBouncer in
// transaction mode LISTEN seems to work, and nothing ever comes.
func (l *listener) checkNotifications(conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(l.ctx, checkTime)
	defer cancel()
	hello := fmt.Sprintf("hello %x", retrysafe.NewOwner())
	if _, err := l.pool.Exec(ctx, "SELECT pg_notify($1, $2)", l.channel, hello); err != nil {
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
func (l *listener) receiveOne(conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(l.ctx, silence)
	defer cancel()
	n, err := conn.WaitForNotification(ctx)
	switch {
	case err == nil:
		l.wake(n.Payload)
		return nil
	case ctx.Err() != nil && l.ctx.Err() == nil:
		ping, cancel := context.WithTimeout(l.ctx, checkTime)
		defer cancel()
		return conn.Ping(ping)
	}
	return err
}

// wake wakes the watches of the key that a notification names.
func (l *listener) wake(payload string) {
	b, err := hex.DecodeString(strings.ReplaceAll(payload, "-", ""))
	if err == nil && len(b) == len(retrysafe.Digest{}) { // otherwise another program has used our channel
		l.watches.Wake(retrysafe.Digest(b))
	}
}
