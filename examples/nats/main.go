// Command nats charges for the orders in a JetStream stream, once for each order, even if it is delivered or sent
// repeatedly.
//
//	go run ./examples/nats nats://127.0.0.1:4222
//
// Publish {"order":"o-1","cents":1700} to the subject orders.new, twice: one charge. Publish {"order":"o-2"}: a copy
// goes to orders.dead. Kill the program while it works, and start it again: still one charge each.
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/retrysafe/retrysafe/examples/internal/till"
	"github.com/retrysafe/retrysafe/queuesafe/natssafe"
)

func main() {
	if err := start(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func start(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: nats URL")
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
	conn, err := nats.Connect(url, nats.MaxReconnects(-1))
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	stream, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: "orders", Subjects: []string{"orders.>"}})
	if err != nil {
		return err
	}
	config := natssafe.ConsumerConfig("till")
	config.FilterSubject = "orders.new"
	pull, err := stream.CreateOrUpdateConsumer(ctx, config)
	if err != nil {
		return err
	}
	orders, err := natssafe.NewConsumer(js, pull, t.Consumer, t.Charge, natssafe.Options{DeadLetters: "orders.dead"})
	if err != nil {
		return err
	}
	return orders.Run(ctx)
}
