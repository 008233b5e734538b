package amqpsafe_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/queuesafe"
	"github.com/retrysafe/retrysafe/queuesafe/amqpsafe"
)

func succeed(context.Context, queuesafe.Message) error { return nil }

func TestProcessedIsGone(t *testing.T) {
	k := newKit(t)
	stop := k.consume(succeed)
	k.send(k.channel(), order("a"), order("b"), order("a"))
	// The second copy may have come while the first was in flight.
	k.Until("handled", func() bool { return k.Saw(queuesafe.Processed) == 2 && k.Saw(queuesafe.Duplicate) == 1 })
	stop()
	if k.Ran.Load() != 2 {
		k.Errorf("%d runs, %+v", k.Ran.Load(), k.Events())
	}
	k.wantEmpty()
}

// Seen to fail with the case of Dead taken out of settle: the message was gone.
func TestFailedForGoodIsADeadLetter(t *testing.T) {
	k := newKit(t)
	stop := k.consume(func(context.Context, queuesafe.Message) error { return errBank })
	m := order("a")
	m.Headers = amqp.Table{"type": "payment", "CC": []any{k.queue}}
	m.ContentType, m.Expiration = "text/plain", "60000"
	k.send(k.channel(), m)
	d := k.get(k.queue + ".dead")
	stop()
	if d.MessageId != "a" || string(d.Body) != "order a" || d.ContentType != "text/plain" || d.Expiration != "" ||
		d.Headers["type"] != "payment" || d.Headers["CC"] != nil || d.Headers[amqpsafe.ReasonHeader] != "failed" ||
		d.Headers[amqpsafe.QueueHeader] != k.queue || d.DeliveryMode != amqp.Persistent {
		k.Errorf("the dead letter is %+v", d)
	}
	k.wantEmpty()
}

func TestDeadCanBeDropped(t *testing.T) {
	k := newKit(t)
	k.o.DropDead = true
	stop := k.consume(func(context.Context, queuesafe.Message) error { return errBank })
	k.send(k.channel(), order("a"))
	k.Until("handled", func() bool { return k.Count(queuesafe.Handled) == 1 })
	stop()
	k.wantEmpty()
}

// Seen to fail with the header that carries the count left out of copyOf: each delivery was the first.
func TestRetryableComesBackAfterItsDelay(t *testing.T) {
	k := newKit(t)
	k.Core.MinDelay, k.Core.MaxDeliveries = 60*time.Millisecond, 4 // in the queue for 200 ms
	began := time.Now()
	stop := k.consume(func(context.Context, queuesafe.Message) error { return retrysafe.Retryable(errBank) })
	k.send(k.channel(), order("a"))
	d := k.get(k.queue + ".dead")
	stop()
	if took := time.Since(began); took < 350*time.Millisecond {
		k.Errorf("four deliveries within %v", took)
	}
	if d.Headers[amqpsafe.ReasonHeader] != "retryable" || d.Headers[amqpsafe.DeliveriesHeader] != int64(4) ||
		k.Ran.Load() != 4 {
		k.Errorf("after %d runs the dead letter is %+v", k.Ran.Load(), d)
	}
	k.wantEmpty()
}

// Two processes have the same message: the second leaves it until the first has ended. Seen to fail with Later
// acknowledged.
func TestInFlightElsewhereIsLeftAndComesAgain(t *testing.T) {
	k := newKit(t)
	hold, began := make(chan struct{}), make(chan struct{}, 1)
	first := k.consume(func(context.Context, queuesafe.Message) error {
		began <- struct{}{}
		k.Wait(hold)
		return retrysafe.Retryable(errBank)
	})
	c := k.channel()
	k.send(c, order("a"))
	<-began
	ending := k.Ending
	second := k.consume(succeed)
	k.send(c, order("a"), order("a"), order("a"), order("a"))
	k.Until("seen in flight", func() bool { return k.Saw(queuesafe.InFlight) >= 8 })
	if k.Saw(queuesafe.Processed) != 0 {
		k.Error("it was processed twice at once")
	}
	go first()
	<-ending // or the first takes it again
	close(hold)
	k.Until("processed", func() bool { return k.Saw(queuesafe.Processed) == 1 && k.Saw(queuesafe.Duplicate) == 4 })
	second()
	k.wantEmpty()
}

// The connection is lost while the handler runs: it goes on, and the next delivery finds its end. Seen to fail with the
// key made another one with each delivery.
func TestLostAcknowledgementCostsOneRead(t *testing.T) {
	k := newKit(t)
	hold, began := make(chan struct{}), make(chan struct{}, 2)
	stop := k.consume(func(context.Context, queuesafe.Message) error {
		began <- struct{}{}
		k.Wait(hold)
		return nil
	})
	k.send(k.channel(), order("a"))
	<-began
	k.cut()
	k.Until("connected again", func() bool { return k.Count(queuesafe.Connected) == 2 })
	k.Until("delivered again", func() bool { return k.Saw(queuesafe.InFlight) >= 1 })
	close(hold)
	k.Until("duplicate", func() bool { return k.Saw(queuesafe.Duplicate) == 1 })
	stop()
	if k.Ran.Load() != 1 || k.Count(queuesafe.SettleFailed) != 1 || k.Count(queuesafe.Disconnected) != 1 {
		k.Errorf("%d runs, %+v", k.Ran.Load(), k.Events())
	}
	k.wantEmpty()
}

// Seen to fail with handlers.Wait taken out of finish: the message was delivered again.
func TestStopWaitsForHandlersAndLeavesTheRest(t *testing.T) {
	k := newKit(t)
	k.o.Parallel, k.o.Prefetch = 1, 3
	hold, began := make(chan struct{}), make(chan struct{}, 1)
	stop := k.consume(func(context.Context, queuesafe.Message) error {
		began <- struct{}{}
		k.Wait(hold)
		return nil
	})
	c := k.channel()
	k.send(c, order("a"), order("b"), order("c"))
	<-began
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	<-k.Ending
	select {
	case <-stopped:
		k.Error("Run has returned though a handler runs")
	case <-time.After(100 * time.Millisecond):
	}
	close(hold)
	<-stopped
	if k.Saw(queuesafe.Processed) != 1 || k.Count(queuesafe.Handled) != 1 || k.Count(queuesafe.SettleFailed) != 0 {
		k.Errorf("%+v", k.Events())
	}
	for _, id := range []string{"b", "c"} {
		if d := k.get(k.queue); d.MessageId != id {
			k.Errorf("%s comes next, want %s", d.MessageId, id)
		}
	}
	k.wantEmpty()
}

// Seen to fail with a loop in session.run that does not ask ctx.Err.
func TestEndedConsumerTakesNoMessage(t *testing.T) {
	k := newKit(t)
	k.consume(succeed)() // makes the queue
	k.send(k.channel(), order("a"))
	_, core := k.NewCore()
	k.EndsBeforeItsFirstMessage(amqpsafe.NewConsumer(k.dial, k.queue, core, succeed, k.o).Run)
}

func TestDeclarationThatIsRefusedIsAnError(t *testing.T) {
	k := newKit(t)
	if _, err := k.channel().QueueDeclare(k.queue, true, false, false, false, nil); err != nil {
		k.Fatal(err)
	}
	_, core := k.NewCore()
	err := amqpsafe.NewConsumer(k.dial, k.queue, core, succeed, k.o).Run(context.Background())
	if err == nil || !strings.Contains(err.Error(), k.queue) || !strings.Contains(err.Error(), "x-queue-type") {
		k.Errorf("Run = %v", err)
	}
	wrong := amqpsafe.URL(strings.Replace(k.url, "guest:guest", "guest:wrong", 1))
	if err := amqpsafe.NewConsumer(wrong, k.queue, core, succeed, k.o).Run(context.Background()); err == nil {
		k.Error("Run with a wrong password = nil")
	}
}

// Seen to fail with Consume's closed channel taken for the end: nothing was consumed any more.
func TestQueueThatIsDeletedIsDeclaredAgain(t *testing.T) {
	k := newKit(t)
	exchange := k.queue + ".events"
	k.o.Topology = func(c *amqp.Channel) error {
		if err := c.ExchangeDeclare(exchange, amqp.ExchangeFanout, true, false, false, false, nil); err != nil {
			return err
		}
		return c.QueueBind(k.queue, "", exchange, false, nil)
	}
	stop := k.consume(succeed)
	c := k.channel()
	if _, err := c.QueueDelete(k.queue, false, false, false); err != nil {
		k.Fatal(err)
	}
	k.Until("connected again", func() bool { return k.Count(queuesafe.Connected) == 2 })
	confirmed, err := c.PublishWithDeferredConfirm(exchange, "", true, false, order("a"))
	if err != nil || !confirmed.Wait() {
		k.Fatal(err)
	}
	k.Until("processed", func() bool { return k.Saw(queuesafe.Processed) == 1 })
	stop()
	k.wantEmpty()
}

// The broker is killed amid, and paused. Nothing is lost, nothing runs twice.
func TestBrokerIsKilledAmid(t *testing.T) {
	t.Parallel()
	server := servers.StartRabbitMQ(t, servers.RabbitMQOptions{})
	k := kitAt(t, server.URL())
	k.Core.MaxDeliveries = -1
	var mu sync.Mutex
	effects, tried := map[string]int{}, map[string]bool{}
	const messages = 300
	hundred, killed := make(chan struct{}), make(chan struct{})
	stop := k.consume(func(_ context.Context, m queuesafe.Message) error {
		mu.Lock()
		if strings.HasSuffix(m.ID, "7") && !tried[m.ID] { // these come twice anyway, by way of a queue for later
			tried[m.ID] = true
			mu.Unlock()
			return retrysafe.Retryable(errBank)
		}
		effects[m.ID]++
		n := len(effects)
		mu.Unlock()
		if n == 100 {
			close(hundred)
		}
		if n >= 100 {
			k.Wait(killed)
		}
		return nil
	})
	c := k.channel()
	for i := range messages {
		k.send(c, order(fmt.Sprint(i)))
	}
	<-hundred
	server.Kill(t)
	close(killed)
	server.Start(t)
	k.Until("all processed", func() bool {
		return k.Saw(queuesafe.Processed) == messages
	})
	stop()
	for id, n := range effects {
		if n != 1 {
			t.Errorf("message %s had %d effects", id, n)
		}
	}
	if k.Saw(queuesafe.Duplicate) == 0 {
		t.Error("nothing was delivered twice: the test shows nothing")
	}
}

// Seen to fail with them left to the end of the connection: they waited for a handler that they have nothing to do
// with.
func TestWhatWasSentAheadGoesBackAtOnceWhenStopping(t *testing.T) {
	k := newKit(t)
	k.o.Parallel, k.o.Prefetch = 1, 10
	began, end := make(chan struct{}), make(chan struct{})
	first := true
	stop := k.consume(func(context.Context, queuesafe.Message) error {
		if first {
			first = false
			close(began)
			k.Wait(end)
		}
		return nil
	})
	c := k.channel()
	k.send(c, order("a"), order("b"), order("c"))
	k.Wait(began)
	stopped := make(chan struct{})
	go func() { defer close(stopped); stop() }()
	d := k.get(k.queue) // while a is at work
	if d.MessageId != "b" {
		t.Errorf("got %s", d.MessageId)
	}
	close(end)
	<-stopped
}

// RabbitMQ 4 removes what has come back twenty times, unless the queue says otherwise. Seen to fail with x-queue-type
// alone.
func TestQueuesNeverGiveUp(t *testing.T) {
	k := newKit(t)
	k.consume(succeed)
	for _, name := range []string{k.queue, k.queue + ".dead"} {
		args := amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": math.MaxInt32}
		if _, err := k.channel().QueueDeclare(name, true, false, false, false, args); err != nil {
			t.Error(err)
		}
	}
}

func TestHeadersOfAllTypesAreCopied(t *testing.T) {
	k := newKit(t)
	k.Core.MaxDeliveries = 2
	k.consume(func(context.Context, queuesafe.Message) error { return retrysafe.Retryable(errBank) })
	m := order("a")
	m.Timestamp = time.Unix(1700000000, 0)
	m.Headers = amqp.Table{
		"nil": nil, "bytes": []byte("x"), "u16": uint16(7), "u32": uint32(7), "byte": byte(7), "i8": int8(7), "bool": true,
		"f32": float32(1.5), "f64": 1.5, "time": time.Unix(1700000000, 0), "decimal": amqp.Decimal{Scale: 2, Value: 150},
		"list": []any{"a", amqp.Table{"b": nil}, []any{}}, "table": amqp.Table{"t": amqp.Table{"u": []byte("v")}},
		"x-delivery-count": "seven", amqpsafe.DeliveriesHeader: "many", "CC": []any{},
		"x-death": []any{amqp.Table{"count": int64(1)}},
	}
	k.send(k.channel(), m)
	d := k.get(k.queue + ".dead")
	for name := range m.Headers {
		if name == "CC" || name == "x-death" || name == "x-delivery-count" {
			continue
		}
		if _, ok := d.Headers[name]; !ok {
			t.Errorf("the header %s is lost: %v", name, d.Headers)
		}
	}
	k.wantEmpty()
}

// Seen to fail with nothing declared again: the message went around, once a second, until the consumer was started
// anew.
func TestQueueThatWasDeletedIsMadeAgain(t *testing.T) {
	k := newKit(t)
	k.Core.MaxDeliveries = 3
	k.consume(func(context.Context, queuesafe.Message) error { return retrysafe.Retryable(errBank) })
	c := k.channel()
	for _, name := range []string{k.queue + ".retry.50ms", k.queue + ".retry.200ms", k.queue + ".dead"} {
		if _, err := c.QueueDelete(name, false, false, false); err != nil {
			t.Fatal(err)
		}
	}
	k.send(c, order("a"))
	k.Until("given up", func() bool { return k.Saw(queuesafe.Retryable) == 3 })
	k.get(k.queue + ".dead")
}
