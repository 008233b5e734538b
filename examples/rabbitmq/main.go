// Command rabbitmq charges for the orders in a RabbitMQ queue, once for each order, even if it is delivered or sent
// repeatedly.
//
//	go run ./examples/rabbitmq amqp://guest:guest@127.0.0.1:5672/
//
// Publish {"order":"o-1","cents":1700} to the queue orders, twice: one charge. Publish {"order":"o-2"}: it goes to
// the queue orders.dead. Kill the program while it works, and start it again: still one charge each.
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/retrysafe/retrysafe/examples/internal/till"
	"github.com/retrysafe/retrysafe/queuesafe/amqpsafe"
)

func main() {
	if err := start(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func start(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: rabbitmq URL")
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	t, err := till.Open("till.db")
	if err != nil {
		return err
	}
	return errors.Join(run(ctx, args[0], t), t.Close(context.Background()))
}

// run consumes until ctx ends, and then waits for the running handlers.
func run(ctx context.Context, url string, t *till.Till) error {
	return amqpsafe.NewConsumer(amqpsafe.URL(url), "orders", t.Consumer, t.Charge, amqpsafe.Options{}).Run(ctx)
}
