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

	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/queuesafe"
	"github.com/retrysafe/retrysafe/queuesafe/amqpsafe"
	"github.com/retrysafe/retrysafe/queuesafe/internal/queuetest"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// shared is the server of all tests that do not harm it. It ends with the process.
var shared = sync.OnceValues(func() (*servers.RabbitMQ, error) {
	return servers.LaunchRabbitMQ(servers.RabbitMQOptions{Settings: map[string]string{"max_message_size": "100000"}})
})

var errBank = errors.New("the bank says no")

// kit has a queue of its own, and a store that all its consumers share.
type kit struct {
	*queuetest.Kit
	url   string
	queue string
	o     amqpsafe.Options

	mu    sync.Mutex
	conns []net.Conn
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
	k := &kit{
		Kit: queuetest.New(t, memstore.New(memstore.Options{})), url: url,
		queue: fmt.Sprintf("orders%d", queues.Add(1)),
	}
	k.o.Delays = []time.Duration{50 * time.Millisecond, 200 * time.Millisecond}
	return k
}

// dial connects, and remembers the connection so that it can be cut.
func (k *kit) dial(context.Context) (*amqp.Connection, error) {
	return amqp.DialConfig(k.url, amqp.Config{Dial: func(network, address string) (net.Conn, error) {
		conn, err := net.Dial(network, address)
		if err != nil {
			return nil, err
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		k.conns = append(k.conns, conn)
		return conn, nil
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
	guard, core := k.NewCore()
	return k.Start(guard, amqpsafe.NewConsumer(k.dial, k.queue, core, k.Counting(h), k.o).Run)
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
	k.Until("in "+queue, func() bool {
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
