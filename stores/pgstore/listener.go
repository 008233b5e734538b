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
	// checkTime is how long the notification of a check may take to arrive.
	checkTime = 2 * time.Second
	// silence is the time without notifications after which the connection is checked.
	silence = 30 * time.Second
	// reconnectPause is the time before a lost connection is made again.
	reconnectPause = 2 * time.Second
)

var errDisconnected = errors.New("pgstore: the database's notifications do not arrive; poll, " +
	"or set Options.Listen to a direct connection")

// listener is the one connection that receives notifications of the ends of attempts. The first call of Watch makes it,
// and Close ends it. When it breaks it is made again, and meanwhile Watch returns errDisconnected.
type listener struct {
	config  *pgx.ConnConfig
	timeout time.Duration // how long the server may take until it has begun to listen
	channel string
	pool    *pgxpool.Pool // that completions use: the check sends its notification through it
	watches *storekit.Watches

	mu        sync.Mutex
	ctx       context.Context // of the goroutine
	stop      context.CancelFunc
	started   bool
	connected bool
	tried     chan struct{} // closed once the first attempt to listen has ended
	ended     chan struct{}
}

func newListener(o Options, pool *pgxpool.Pool, w *storekit.Watches) *listener {
	l := &listener{config: o.Listen, timeout: o.Timeout, channel: channel(o.Schema), pool: pool, watches: w}
	l.ctx, l.stop = context.WithCancel(context.Background())
	l.tried, l.ended = make(chan struct{}), make(chan struct{})
	return l
}

// listens returns nil if notifications arrive. The first call connects, and others wait for that.
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
		_ = l.listen() // whatever the error: callers of Watch are woken, and poll until there is a connection again
		l.setConnected(false)
		select {
		case <-time.After(reconnectPause):
		case <-l.ctx.Done():
			return
		}
	}
}

// setConnected notes whether notifications arrive now. All watches are woken, because some notifications may have
// been lost. It is one step for listens, so that a watch which begins after it is not woken by it.
func (l *listener) setConnected(now bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.connected = now
	l.watches.WakeAll()
	select {
	case <-l.tried:
	default:
		close(l.tried)
	}
}

// listen returns when the connection is lost, or when no notification arrives through it. What comes before the first
// notification has a deadline, because a server that hangs behind a proxy which accepts connections would hold it up
// for ever, also when there is another server by then.
func (l *listener) listen() error {
	begin, cancel := context.WithTimeout(l.ctx, l.timeout)
	defer cancel()
	conn, err := pgx.ConnectConfig(begin, l.config)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(l.ctx)) }()
	if _, err := conn.Exec(begin, "LISTEN "+l.channel, pgx.QueryExecModeSimpleProtocol); err != nil {
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

// checkNotifications sends a notification the way completions do, and waits until it arrives: through PgBouncer in
// transaction mode LISTEN succeeds, and no notification ever arrives.
func (l *listener) checkNotifications(conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(l.ctx, checkTime)
	defer cancel()
	check := fmt.Sprintf("check %x", retrysafe.NewOwner())
	if _, err := l.pool.Exec(ctx, "SELECT pg_notify($1, $2)", l.channel, check); err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return fmt.Errorf("%w: %w", errDisconnected, err)
		}
		if n.Payload == check {
			return nil
		}
	}
}

// receiveOne wakes the watches that a notification is for. After a silence it checks the connection.
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
