// Command kafka charges for the orders in a Kafka topic, once for each order, even if it is delivered or sent
// repeatedly.
//
//	go run ./examples/kafka 127.0.0.1:9092
//
// The topics orders and orders.dead must be there. Produce {"order":"o-1","cents":1700} to orders, twice: one charge.
// Produce {"order":"o-2"}: a copy goes to orders.dead. Start the program several times, kill some of them: still one
// charge each.
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/retrysafe/retrysafe/examples/internal/till"
	"github.com/retrysafe/retrysafe/queuesafe/kafkasafe"
)

func main() {
	if err := start(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func start(args []string) error {
	if len(args) == 0 {
		return errors.New("usage: kafka BROKER [BROKER]")
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	t, err := till.Open("till.db")
	if err != nil {
		return err
	}
	return errors.Join(run(ctx, args, t), t.Close(context.Background()))
}

// run consumes until ctx ends, and then waits for the running handlers.
func run(ctx context.Context, brokers []string, t *till.Till) error {
	connect := []kgo.Opt{kgo.SeedBrokers(brokers...)}
	return kafkasafe.NewConsumer(connect, "till", []string{"orders"}, t.Consumer, t.Charge, kafkasafe.Options{}).Run(ctx)
}
