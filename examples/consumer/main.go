// Command consumer charges for the orders in a queue, once for each order, even if it is delivered or sent repeatedly.
// The URL chooses the broker; the file of each broker says what must be there.
//
//	go run ./examples/consumer amqp://guest:guest@127.0.0.1:5672/
//	go run ./examples/consumer nats://127.0.0.1:4222
//	go run ./examples/consumer kafka://127.0.0.1:9092
//	go run ./examples/consumer https://sqs.eu-west-1.amazonaws.com/123456789012/orders
//	go run ./examples/consumer watermill:
//
// Send {"order":"o-1","cents":1700}, twice: one charge. Send {"order":"o-2"}: it becomes a dead letter. Start the
// program several times, kill it while it works, and start it again: still one charge each. It prints the number of
// charges when it ends.
//
// To copy it, take this file, till.go, and the file of your broker.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/retrysafe/retrysafe/queuesafe"
)

func main() {
	if err := start(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func start(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: consumer URL, for example consumer nats://127.0.0.1:4222")
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	t, err := openTill("till.db", queuesafe.ObserverFunc(report))
	if err != nil {
		return err
	}
	err = run(ctx, args[0], t)
	orders, charges, failed := t.charges(context.Background())
	fmt.Printf("%d charges for %d orders\n", charges, orders)
	return errors.Join(err, failed, t.close(context.Background()))
}

// run consumes until ctx ends, and then waits for the running handlers.
func run(ctx context.Context, url string, t *till) error {
	scheme, address, _ := strings.Cut(url, ":")
	switch scheme {
	case "amqp", "amqps":
		return runRabbitMQ(ctx, url, t)
	case "nats", "tls":
		return runNATS(ctx, url, t)
	case "kafka":
		return runKafka(ctx, strings.Split(strings.TrimPrefix(address, "//"), ","), t)
	case "https", "http":
		return runSQS(ctx, url, t)
	case "watermill":
		return runWatermill(ctx, t)
	}
	return fmt.Errorf("unsupported broker %q; supported: amqp, amqps, nats, tls, kafka, https, http, watermill", scheme)
}

// report prints what became of each delivery.
func report(_ context.Context, e queuesafe.Event) {
	if e.Kind == queuesafe.Handled {
		fmt.Printf("delivery %d of key %v: %v, %v\n", e.Delivery, e.Key, e.Disposition.Situation, e.Disposition.Action)
		return
	}
	fmt.Println(e.Source, e.Kind, e.Err)
}
