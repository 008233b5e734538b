package outbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/outbox"
)

// A sink made of a function that sends one message.
func ExampleEach() {
	sink := outbox.Each(8, func(_ context.Context, m outbox.Delivery) error {
		switch m.Topic {
		case "order.placed":
			return nil // the receiver has it
		case "order.busy":
			return outbox.RetryAfter(errors.New("too many requests"), time.Minute)
		}
		return outbox.Permanent(fmt.Errorf("no receiver for %s", m.Topic))
	})
	batch := []outbox.Delivery{
		{Message: outbox.Message{Key: outbox.NewKey(), Topic: "order.placed"}, Try: 1},
		{Message: outbox.Message{Key: outbox.NewKey(), Topic: "order.busy"}, Try: 1},
		{Message: outbox.Message{Key: outbox.NewKey(), Topic: "order.lost"}, Try: 1},
	}
	for i, err := range sink.Send(context.Background(), batch) {
		fmt.Println(batch[i].Topic, err, outbox.RetryDelay(err), outbox.IsPermanent(err))
	}
	// Output:
	// order.placed <nil> 0s false
	// order.busy too many requests 1m0s false
	// order.lost no receiver for order.lost 0s true
}

// A sink whose receiver knows the key of each message. While the receiver cannot be reached, it stays unknown what became
// of a try that was not seen to end, and the next delivery is told so as well.
func ExampleUnseen() {
	send := func(context.Context, outbox.Delivery) error { return errors.New("connection refused") }
	sink := outbox.Each(8, func(ctx context.Context, m outbox.Delivery) error {
		err := outbox.Untried(send(ctx, m))
		if m.Unended > 0 {
			err = outbox.Unseen(err)
		}
		return err
	})
	after := outbox.Delivery{Message: outbox.Message{Key: outbox.NewKey()}, Try: 2, Unended: time.Minute}
	fmt.Println(sink.Send(context.Background(), []outbox.Delivery{after})[0])
	// Output: connection refused
}

// A page for operators finds the outboxes of a database, and says what holds them up.
func ExampleFind() {
	show := func(ctx context.Context, db *sql.DB) error {
		found, err := outbox.Find(ctx, db, outbox.PostgreSQL)
		if err != nil {
			return err
		}
		for _, options := range found {
			box, err := outbox.New(db, outbox.PostgreSQL, options)
			if err != nil {
				return err
			}
			held, err := box.Held(ctx, 10)
			if err != nil {
				return err
			}
			for _, h := range held {
				fmt.Println(options.Table, h.First.Aggregate, h.Waiting, "wait behind", h.First.Key, h.Error)
			}
			letters, err := box.PeekDead(ctx, 0, 100)
			if err != nil {
				return err
			}
			fmt.Println(options.Table, len(letters), "dead letters")
		}
		return nil
	}
	_ = show
}
