package amqpsafe_test

import (
	"context"
	"fmt"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/queuesafe"
	"github.com/retrysafe/retrysafe/queuesafe/amqpsafe"
)

func (k *kit) sink(o amqpsafe.SinkOptions) *amqpsafe.Sink {
	s := amqpsafe.NewSink(k.dial, o)
	k.Cleanup(s.Close)
	return s
}

func paid(key, topic string) outbox.Delivery {
	return outbox.Delivery{Message: outbox.Message{
		Key: key, Topic: topic, Body: []byte("paid " + key), Header: map[string]string{"Type": "paid"},
	}}
}

// What a sink sends, sent twice, is processed once.
func TestSinkToConsumer(t *testing.T) {
	k := newKit(t)
	stop := k.consume(func(_ context.Context, m queuesafe.Message) error {
		if m.ID != string(m.Body[len("paid "):]) || m.Header.Values("type")[0] != "paid" {
			k.Errorf("got %+v", m)
		}
		return nil
	})
	s := k.sink(amqpsafe.SinkOptions{})
	batch := []outbox.Delivery{paid("a", k.queue), paid(`"b`, k.queue), paid("c", k.queue)}
	for range 2 {
		for i, err := range s.Send(context.Background(), batch) {
			if err != nil {
				k.Errorf("message %d: %v", i, err)
			}
		}
	}
	k.Until("handled", func() bool { return k.Count(queuesafe.Handled) == 6 })
	stop()
	if k.Saw(queuesafe.Processed) != 3 || k.Saw(queuesafe.Duplicate) != 3 {
		k.Errorf("%+v", k.Events())
	}
	k.wantEmpty()
}

// Seen to fail with the mandatory flag taken out: the server confirmed what nobody had received.
func TestMessageThatNoQueueTakesIsNotSent(t *testing.T) {
	k := newKit(t)
	k.consume(succeed)
	s := k.sink(amqpsafe.SinkOptions{})
	var batch []outbox.Delivery
	for i := range 1000 {
		d := paid(fmt.Sprint(i), k.queue)
		if i%3 == 0 {
			d.Topic = "nowhere"
		}
		batch = append(batch, d)
	}
	for i, err := range s.Send(context.Background(), batch) {
		if (err != nil) != (i%3 == 0) {
			k.Errorf("message %d: %v", i, err)
		}
	}
	k.Until("processed", func() bool { return k.Saw(queuesafe.Processed) == 666 })
}

// An exchange that is missing costs the channel; the next batch has another.
func TestSinkComesBack(t *testing.T) {
	k := newKit(t)
	stop := k.consume(succeed)
	exchange := k.queue + ".events"
	s := k.sink(amqpsafe.SinkOptions{Exchange: exchange, RoutingKey: func(outbox.Message) string { return "x" }})
	batch := []outbox.Delivery{paid("a", ""), paid("b", "")}
	send := func() error { return errorsOf(s.Send(context.Background(), batch)) }
	if send() == nil {
		k.Error("sent to an exchange that is not there")
	}
	c := k.channel()
	if err := c.ExchangeDeclare(exchange, amqp.ExchangeFanout, true, false, false, false, nil); err != nil {
		k.Fatal(err)
	}
	if err := c.QueueBind(k.queue, "", exchange, false, nil); err != nil {
		k.Fatal(err)
	}
	k.Until("sent", func() bool { return send() == nil })
	k.cut()
	k.Until("sent again", func() bool { return send() == nil })
	k.Until("processed", func() bool { return k.Saw(queuesafe.Processed) == 2 && k.Saw(queuesafe.Duplicate) >= 2 })
	stop()
	k.wantEmpty()
}

func errorsOf(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
