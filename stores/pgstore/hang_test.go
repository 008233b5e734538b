package pgstore

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/internal/testkit"
)

// hanging returns the URL of a server that does not answer on a connection once a client has sent a text there, until
// let is called. Then such connections break.
func hanging(t *testing.T, server, text string) (through string, let func()) {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	u.Host = testkit.StartRelay(t, u.Host, func() (sent, answered func(b []byte) bool) {
		return func(b []byte) bool {
			if !bytes.Contains(b, []byte(text)) {
				return true
			}
			<-over
			return false
		}, func([]byte) bool { return true }
	})
	let = sync.OnceFunc(func() { close(over) })
	t.Cleanup(let)
	return u.String(), let
}

// returns expects f to return although the server does not answer.
func returns(t *testing.T, let, f func()) {
	t.Helper()
	testkit.Returns(t, f)
	let()
}

// A server that stops answering when a sweep gives its lock back holds up neither the sweeper nor the pool.
// Seen to fail without the deadline of releaseSweepLock: Sweep had not returned after two minutes.
func TestSweepThatIsNotAnswered(t *testing.T) {
	t.Parallel()
	at := shared.Get(t).Database(t)
	openAt(t, at, Options{})
	through, let := hanging(t, at, "SET until = 0")
	s := openOn(t, openPool(t, through), Options{})
	returns(t, let, func() {
		if _, err := s.Sweep(t.Context(), 1); err != nil {
			t.Error(err)
		}
	})
}

// A server that stops answering when the work has failed holds the caller up for the time that is for it.
// Seen to fail without the deadline of sharedTx.Rollback with pgx, and with t.Rollback in the place of Within with
// database/sql: InTx had not returned after two minutes.
func TestRollbackThatIsNotAnswered(t *testing.T) {
	t.Parallel()
	at := shared.Get(t).Database(t)
	newBusiness(t, openAt(t, at, Options{}), false)
	for name, withSQL := range map[string]bool{"pgx": false, "sql": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			through, let := hanging(t, at, "rollback\x00")
			b, failed := newBusiness(t, openOn(t, openPool(t, through), Options{}), withSQL), errors.New("the work has failed")
			returns(t, let, func() {
				err := b.guardedAt(t, name, func(ctx context.Context, _ *retrysafe.Attempt) error {
					return retrysafe.Retryable(b.inTx(ctx, func(context.Context, func() error) error { return failed }))
				})
				if !errors.Is(err, failed) {
					t.Errorf("got %v, want what the work returned", err)
				}
			})
		})
	}
}

// A connection that is accepted and never answered, as by a proxy whose server is gone, is given up, and the listener
// connects again. Seen to fail with l.ctx given to ConnectConfig: no Watch succeeded for two minutes.
func TestListenerThatIsNotAnswered(t *testing.T) {
	t.Parallel()
	at := shared.Get(t).Database(t)
	config, err := pgx.ParseConfig(at)
	if err != nil {
		t.Fatal(err)
	}
	var hung atomic.Bool
	dial := config.DialFunc
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if !hung.CompareAndSwap(false, true) {
			return dial(ctx, network, address)
		}
		conn, silent := net.Pipe()
		go io.Copy(io.Discard, silent)
		return conn, nil
	}
	s := openAt(t, at, Options{Timeout: 3 * time.Second, Listen: config})
	eventually(t, "Watch succeeds", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, stop, err := s.Watch(ctx, params("k").Key)
		if err == nil {
			stop()
		}
		return err == nil
	})
	if !hung.Load() {
		t.Error("no connection has hung")
	}
}
