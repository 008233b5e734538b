package amqpsafe_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/servers"
	"github.com/retrysafe/retrysafe/queuesafe"
	"github.com/retrysafe/retrysafe/queuesafe/amqpsafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// shared is the server of all tests that do not harm it. It ends with the process.
var shared = sync.OnceValues(func() (*servers.RabbitMQ, error) { return servers.LaunchRabbitMQ(servers.RabbitMQOptions{}) })

var errBank = errors.New("the bank says no")

// kit has a queue of its own, and a store that all its consumers share.
type kit struct {
	*testing.T
	url   string
	queue string
	store *memstore.Store
	o     amqpsafe.Options
	core  queuesafe.Options
	p     retrysafe.Policy

	mu     sync.Mutex
	events []queuesafe.Event
	conns  []net.Conn
	ran    atomic.Int64
}

var queues atomic.Int64

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
	k := &kit{T: t, url: url, queue: fmt.Sprintf("orders%d", queues.Add(1)), store: memstore.New(memstore.Options{})}
	k.o.Delays = []time.Duration{50 * time.Millisecond, 200 * time.Millisecond}
	k.o.MaxPause = 300 * time.Millisecond
	k.core.MinDelay, k.core.MaxDelay = 10*time.Millisecond, 200*time.Millisecond
	return k
}

// dial connects, and remembers the connection so that it can be cut.
func (k *kit) dial(context.Context) (*amqp.Connection, error) {
	return amqp.DialConfig(k.url, amqp.Config{Dial: func(network, address string) (net.Conn, error) {
		conn, err := net.DialTimeout(network, address, time.Second)
		k.mu.Lock()
		defer k.mu.Unlock()
		k.conns = append(k.conns, conn)
		return conn, err
	}})
}

// cut ends all connections of consumers, as a broken network does.
func (k *kit) cut() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.conns {
		c.Close()
	}
	k.conns = nil
}

// consume runs a consumer with a guard of its own until the test or the returned function ends it.
func (k *kit) consume(h queuesafe.Handler) (stop func()) {
	k.Helper()
	k.core.Observer = k.observe
	guard := retrysafe.New(k.store, retrysafe.Options{Policy: k.p})
	core, err := queuesafe.New(guard, "billing", k.core)
	if err != nil {
		k.Fatal(err)
	}
	before := k.count(queuesafe.Connected)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := amqpsafe.NewConsumer(k.dial, k.queue, core, k.counting(h), k.o).Run(ctx); err != nil {
			k.Error(err)
		}
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		<-done
		guard.Shutdown(context.Background())
	})
	k.Cleanup(stop)
	k.until("connected", func() bool { return k.count(queuesafe.Connected) > before })
	return stop
}

func (k *kit) counting(h queuesafe.Handler) queuesafe.Handler {
	return func(ctx context.Context, m queuesafe.Message) error {
		k.ran.Add(1)
		return h(ctx, m)
	}
}

// wait is for handlers: a test that has failed waits for them in vain.
func (k *kit) wait(c <-chan struct{}) {
	select {
	case <-c:
	case <-k.Context().Done():
	}
}

func (k *kit) observe(_ context.Context, e queuesafe.Event) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.events = append(k.events, e)
}

func (k *kit) count(kind queuesafe.EventKind) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := 0
	for _, e := range k.events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// saw counts the deliveries that ended in a situation.
func (k *kit) saw(s queuesafe.Situation) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := 0
	for _, e := range k.events {
		if e.Kind == queuesafe.Handled && e.Disposition.Situation == s {
			n++
		}
	}
	return n
}

func (k *kit) until(what string, so func() bool) {
	k.Helper()
	end := time.NewTimer(30 * time.Second)
	defer end.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-end.C:
			k.mu.Lock()
			defer k.mu.Unlock()
			k.Fatalf("not %s in time; %d runs; seen: %+v", what, k.ran.Load(), k.events)
		}
	}
}

// channel is one of the test's own, in confirm mode.
func (k *kit) channel() *amqp.Channel {
	k.Helper()
	conn, err := amqp.Dial(k.url)
	if err != nil {
		k.Fatal(err)
	}
	k.Cleanup(func() { conn.Close() })
	c, err := conn.Channel()
	if err != nil {
		k.Fatal(err)
	}
	if err := c.Confirm(false); err != nil {
		k.Fatal(err)
	}
	return c
}

func (k *kit) send(c *amqp.Channel, messages ...amqp.Publishing) {
	k.Helper()
	for _, m := range messages {
		m.DeliveryMode = amqp.Persistent
		confirmed, err := c.PublishWithDeferredConfirm("", k.queue, true, false, m)
		if err != nil || !confirmed.Wait() {
			k.Fatalf("publish: %v", err)
		}
	}
}

func order(id string) amqp.Publishing {
	return amqp.Publishing{MessageId: id, Body: []byte("order " + id)}
}

// get waits for a message in a queue.
func (k *kit) get(queue string) amqp.Delivery {
	k.Helper()
	c := k.channel()
	var d amqp.Delivery
	k.until("in "+queue, func() bool {
		got, ok, err := c.Get(queue, true)
		if err != nil {
			k.Fatal(err)
		}
		d = got
		return ok
	})
	return d
}

// wantEmpty checks that nothing is left of the queue's messages, waiting or not acknowledged.
func (k *kit) wantEmpty() {
	k.Helper()
	c := k.channel()
	for _, name := range []string{k.queue, k.queue + ".retry.50ms", k.queue + ".retry.200ms"} {
		if n, err := c.QueuePurge(name, false); err != nil || n != 0 {
			k.Errorf("%d messages are left in %s, %v", n, name, err)
		}
	}
}
