package natssafe_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/queuesafe"
	"github.com/retrysafe/retrysafe/queuesafe/internal/queuetest"
	"github.com/retrysafe/retrysafe/queuesafe/natssafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// shared is the server of all tests that do not harm it. It ends with the process.
var shared = sync.OnceValues(func() (*servers.NATS, error) { return servers.LaunchNATS(servers.NATSOptions{}) })

var errBank = errors.New("the bank says no")

// kit has a stream of its own, with the subjects ORDERSn.> and its dead letters in DEADn, and a store that all its
// consumers share.
type kit struct {
	*queuetest.Kit
	ctx    context.Context
	url    string
	name   string
	stream jetstream.Stream
	js     jetstream.JetStream // the test's own
	config jetstream.ConsumerConfig
	o      natssafe.Options
	dialer nats.CustomDialer // of the connections made from now on; nil: the usual one
}

var streams atomic.Int64

func newKit(t *testing.T) *kit {
	t.Helper()
	t.Parallel()
	server, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return kitAt(t, server.URL())
}

func kitAt(t *testing.T, url string) *kit {
	t.Helper()
	n := streams.Add(1)
	k := &kit{
		Kit: queuetest.New(t, memstore.New(memstore.Options{})), ctx: context.Background(), url: url,
		name: fmt.Sprintf("ORDERS%d", n),
	}
	k.config = natssafe.ConsumerConfig(queuetest.Name)
	k.o.DeadLetters = fmt.Sprintf("DEAD%d", n)
	k.js = k.connect(jetstream.WithDefaultTimeout(time.Minute))
	k.stream = k.makeStream(k.name, k.name+".>")
	k.makeStream(k.o.DeadLetters, k.o.DeadLetters)
	return k
}

func (k *kit) makeStream(name, subject string) jetstream.Stream {
	k.Helper()
	s, err := k.js.CreateStream(k.ctx, jetstream.StreamConfig{
		Name: name, Subjects: []string{subject},
		Retention: jetstream.WorkQueuePolicy,
	})
	if err != nil {
		k.Fatal(err)
	}
	return s
}

func (k *kit) connect(opts ...jetstream.JetStreamOpt) jetstream.JetStream {
	k.Helper()
	conn, err := nats.Connect(k.url, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond),
		nats.SetCustomDialer(k.dialer))
	if err != nil {
		k.Fatal(err)
	}
	k.Cleanup(conn.Close)
	js, err := jetstream.New(conn, opts...)
	if err != nil {
		k.Fatal(err)
	}
	return js
}

// newConsumer returns a consumer with a guard of its own.
func (k *kit) newConsumer(h queuesafe.Handler) (*natssafe.Consumer, *retrysafe.Guard, error) {
	k.Helper()
	guard, core := k.NewCore()
	js := k.connect()
	pull, err := js.CreateOrUpdateConsumer(k.ctx, k.name, k.config)
	if err != nil {
		k.Fatal(err)
	}
	c, err := natssafe.NewConsumer(js, pull, core, k.Counting(h), k.o)
	return c, guard, err
}

// consume runs a consumer until the test or the returned function ends it.
func (k *kit) consume(h queuesafe.Handler) (stop func()) {
	k.Helper()
	c, guard, err := k.newConsumer(h)
	if err != nil {
		k.Fatal(err)
	}
	return k.Start(guard, c.Run)
}

// send publishes orders with a key each, and no ID by which the stream would drop a copy.
func (k *kit) send(keys ...string) {
	k.Helper()
	for _, key := range keys {
		m := nats.NewMsg(k.name + ".new")
		m.Header.Set(queuesafe.KeyHeader, key)
		m.Data = []byte("order " + key)
		if _, err := k.js.PublishMsg(k.ctx, m); err != nil {
			k.Fatal(err)
		}
	}
}

// left is how many messages the stream holds: it keeps those that are not acknowledged.
func (k *kit) left() uint64 {
	k.Helper()
	info, err := k.stream.Info(k.ctx)
	if err != nil {
		k.Fatal(err)
	}
	return info.State.Msgs
}

func (k *kit) wantLeft(want uint64) {
	k.Helper()
	if got := k.left(); got != want {
		k.Errorf("%d messages are left, want %d", got, want)
	}
}

// state returns the state of the JetStream consumer.
func (k *kit) state() *jetstream.ConsumerInfo {
	k.Helper()
	c, err := k.stream.Consumer(k.ctx, k.config.Durable)
	if err != nil {
		k.Fatal(err)
	}
	return c.CachedInfo()
}

// held is a dialer of connections that receive nothing while the lock is held. What they send is not held.
type held struct{ *sync.RWMutex }

type heldConn struct {
	net.Conn
	held
}

func (h held) Dial(network, address string) (net.Conn, error) {
	conn, err := net.Dial(network, address)
	return heldConn{conn, h}, err
}

func (c heldConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.RLock()
	defer c.RUnlock()
	return n, err
}

// dead returns the only dead letter.
func (k *kit) dead() *jetstream.RawStreamMsg {
	k.Helper()
	s, err := k.js.Stream(k.ctx, k.o.DeadLetters)
	if err != nil {
		k.Fatal(err)
	}
	k.Until("dead", func() bool {
		info, err := s.Info(k.ctx)
		return err == nil && info.State.Msgs > 0
	})
	m, err := s.GetMsg(k.ctx, 1)
	if err != nil {
		k.Fatal(err)
	}
	return m
}
