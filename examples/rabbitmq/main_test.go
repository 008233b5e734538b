package main

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrysafe/retrysafe/examples/internal/till"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/queuesafe/amqpsafe"
)

func TestOneChargeForEachOrder(t *testing.T) {
	url := servers.StartRabbitMQ(t, servers.RabbitMQOptions{}).URL()
	shop, err := till.Open(filepath.Join(t.TempDir(), "till.db"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- run(ctx, url, shop) }()

	conn, err := amqp.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	channel, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	declare := func(name string) amqp.Queue { // as the program does; either may be first
		q, err := channel.QueueDeclare(name, true, false, false, false, amqpsafe.QueueArguments())
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	declare("orders")
	if err := channel.Confirm(false); err != nil {
		t.Fatal(err)
	}
	for _, order := range []string{`{"order":"o-1","cents":1700}`, `{"order":"o-1","cents":1700}`, `{"order":"o-2"}`} {
		for sent := false; !sent; { // a new queue may not accept the message yet
			confirmed, err := channel.PublishWithDeferredConfirm("", "orders", true, false, amqp.Publishing{Body: []byte(order)})
			if err != nil {
				t.Fatal(err)
			}
			sent = confirmed.Wait()
		}
	}
	for tick := time.Tick(10 * time.Millisecond); ; <-tick {
		if _, charges, err := shop.Charges(ctx); err != nil || declare("orders.dead").Messages == 1 && charges > 0 {
			break
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if orders, charges, err := shop.Charges(t.Context()); orders != 1 || charges != 1 || err != nil {
		t.Errorf("%d charges for %d orders, %v", charges, orders, err)
	}
	if err := shop.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
