package main

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/examples/internal/exampletest"
	"github.com/retrysafe/retrysafe/queuesafe"
)

// Orders that the tests send: the first many times at the same time, the second once. The second cannot be charged.
const (
	priced    = `{"order":"o-1","cents":1700}`
	malformed = `{"order":"o-2"}`
)

// broker is a running broker with an empty queue.
type broker struct {
	url string
	// send puts an order into the queue. It is called by several goroutines at once.
	send func(ctx context.Context, body string) error
	// deadLetters returns the number of dead letters.
	deadLetters func(ctx context.Context) (int, error)
}

// Seen to fail with KeyByPosition instead of KeyByField: each duplicate is charged, or none, because there is no key.
func TestOneChargeForEachOrder(t *testing.T) {
	for name, start := range map[string]func(*testing.T) broker{
		"RabbitMQ": startRabbitMQ, "NATS": startNATS, "Kafka": startKafka, "SQS": startSQS,
	} {
		t.Run(name, func(t *testing.T) {
			b := start(t)
			shop, actions := openTestTill(t)
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- run(ctx, b.url, shop) }()
			b.sendAll(t)
			for left := exampletest.Duplicates + 1; left > 0; {
				select {
				case a := <-actions:
					if a != queuesafe.Later {
						left--
					}
				case err := <-ended:
					t.Fatal("the consumer ended early: ", err)
				}
			}
			b.wantOneDeadLetter(t)
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			wantOneCharge(t, shop)
		})
	}
}

// Watermill's broker in memory sends the orders itself.
func TestOneChargeWithWatermill(t *testing.T) {
	shop, _ := openTestTill(t)
	if err := run(t.Context(), "watermill:", shop); err != nil {
		t.Error(err)
	}
	wantOneCharge(t, shop)
}

// openTestTill returns a till, and what becomes of each delivery.
func openTestTill(t *testing.T) (*till, <-chan queuesafe.Action) {
	t.Helper()
	actions := make(chan queuesafe.Action, 1000)
	shop, err := openTill(filepath.Join(t.TempDir(), "till.db"), queuesafe.ObserverFunc(
		func(_ context.Context, e queuesafe.Event) {
			if e.Kind == queuesafe.Handled {
				actions <- e.Disposition.Action
			}
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := shop.close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return shop, actions
}

// sendAll sends the orders at the same time.
func (b broker) sendAll(t *testing.T) {
	t.Helper()
	start, done := make(chan struct{}), sync.WaitGroup{}
	send := func(order string) {
		<-start
		if err := b.send(t.Context(), order); err != nil {
			t.Error(err)
		}
	}
	for range exampletest.Duplicates {
		done.Go(func() { send(priced) })
	}
	done.Go(func() { send(malformed) })
	close(start)
	done.Wait()
}

// wantOneDeadLetter waits for a dead letter, which follows the decision about the order.
func (b broker) wantOneDeadLetter(t *testing.T) {
	t.Helper()
	for tick := time.Tick(10 * time.Millisecond); ; <-tick {
		n, err := b.deadLetters(t.Context())
		if n > 1 || err != nil {
			t.Errorf("%d dead letters, %v; want 1", n, err)
		}
		if n > 0 || err != nil {
			return
		}
	}
}

func wantOneCharge(t *testing.T, shop *till) {
	t.Helper()
	if orders, charges, err := shop.charges(t.Context()); orders != 1 || charges != 1 || err != nil {
		t.Errorf("%d charges for %d orders, %v; want 1 for 1", charges, orders, err)
	}
}
