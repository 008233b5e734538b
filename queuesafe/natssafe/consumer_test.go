package natssafe_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/queuesafe"
	"github.com/retrysafe/retrysafe/queuesafe/natssafe"
)

func succeed(context.Context, queuesafe.Message) error { return nil }

func TestProcessedIsGone(t *testing.T) {
	k := newKit(t)
	stop := k.consume(succeed)
	k.send("a", "b", "a")
	// The second copy may have come while the first was in flight.
	k.Until("handled", func() bool { return k.Saw(queuesafe.Processed) == 2 && k.Saw(queuesafe.Duplicate) == 1 })
	stop()
	if k.Ran.Load() != 2 {
		k.Errorf("%d runs, %+v", k.Ran.Load(), k.Events())
	}
	k.wantLeft(0)
}

// Seen to fail with the publishing taken out of settle: the message was gone.
func TestFailedForGoodIsADeadLetter(t *testing.T) {
	k := newKit(t)
	stop := k.consume(func(context.Context, queuesafe.Message) error { return errBank })
	k.send("a")
	m := k.dead()
	k.Until("terminated", func() bool { return k.left() == 0 })
	stop()
	h := m.Header
	if string(m.Data) != "order a" || h.Get(queuesafe.KeyHeader) != "a" || h.Get(natssafe.ReasonHeader) != "failed" ||
		h.Get(natssafe.SubjectHeader) != k.name+".new" || h.Get(natssafe.DeliveriesHeader) != "1" {
		k.Errorf("the dead letter is %+v", m)
	}
}

// Without it an operator could not find the key of a dead letter. Seen to fail with the ID overwritten only.
func TestDeadLetterNamesTheIDThatTheMessageHad(t *testing.T) {
	k := newKit(t)
	k.consume(func(context.Context, queuesafe.Message) error { return errBank })
	if _, err := k.js.Publish(k.ctx, k.name+".new", []byte("order"), jetstream.WithMsgID("m-1")); err != nil {
		t.Fatal(err)
	}
	if h := k.dead().Header; h.Get(natssafe.IDHeader) != "m-1" || h.Get(jetstream.MsgIDHeader) == "m-1" {
		t.Errorf("the dead letter has the header %v", h)
	}
}

// A message as large as the server takes has no room for a reason. Seen to fail with it always added: it came again,
// once a second, for ever.
func TestLargestMessageBecomesADeadLetter(t *testing.T) {
	k := newKit(t)
	k.consume(func(context.Context, queuesafe.Message) error { return errBank })
	if _, err := k.js.Publish(k.ctx, k.name+".new", make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	if m := k.dead(); len(m.Data) != 1<<20 {
		t.Errorf("the dead letter has %d bytes", len(m.Data))
	}
	k.Until("terminated", func() bool { return k.left() == 0 })
}

// A message that was published in a batch keeps the headers of that, with which the stream of the dead letters refuses
// it: it came again, once a second, for ever. Seen to fail with isInstruction true for a list of names that has none of
// batches.
func TestMessageOfABatchBecomesADeadLetter(t *testing.T) {
	k := newKit(t)
	config := k.stream.CachedInfo().Config
	config.AllowAtomicPublish = true
	if _, err := k.js.UpdateStream(k.ctx, config); err != nil {
		t.Fatal(err)
	}
	k.consume(func(context.Context, queuesafe.Message) error { return errBank })
	m := nats.NewMsg(k.name + ".new")
	for name, value := range map[string]string{
		queuesafe.KeyHeader: "a", "Nats-Batch-Id": "batch", "Nats-Batch-Sequence": "1", "Nats-Batch-Commit": "1",
	} {
		m.Header.Set(name, value)
	}
	if _, err := k.js.PublishMsg(k.ctx, m); err != nil {
		t.Fatal(err)
	}
	if h := k.dead().Header; h.Get(queuesafe.KeyHeader) != "a" || h.Get("Nats-Batch-Id") != "" {
		t.Errorf("the dead letter has the header %v", h)
	}
	k.Until("terminated", func() bool { return k.left() == 0 })
}

// A dead letter that cannot be kept is not given up. Seen to fail with the error of publishing it ignored.
func TestDeadLetterThatNobodyKeepsIsLeft(t *testing.T) {
	k := newKit(t)
	k.o.DeadLetters = "NOBODY." + k.name
	stop := k.consume(func(context.Context, queuesafe.Message) error { return errBank })
	k.send("a")
	k.Until("delivered again", func() bool { return k.Saw(queuesafe.Failed) >= 2 })
	stop()
	k.wantLeft(1)
	if k.Ran.Load() != 1 {
		k.Errorf("%d runs", k.Ran.Load())
	}
}

func TestRetryableComesBackAfterItsDelay(t *testing.T) {
	k := newKit(t)
	k.Core.MinDelay, k.Core.MaxDelay, k.Core.MaxDeliveries = 200*time.Millisecond, 200*time.Millisecond, 4
	began := time.Now()
	stop := k.consume(func(context.Context, queuesafe.Message) error { return retrysafe.Retryable(errBank) })
	k.send("a")
	m := k.dead()
	if took := time.Since(began); took < 400*time.Millisecond {
		k.Errorf("four deliveries within %v", took)
	}
	k.Until("terminated", func() bool { return k.left() == 0 })
	stop()
	if m.Header.Get(natssafe.ReasonHeader) != "retryable" || m.Header.Get(natssafe.DeliveriesHeader) != "4" ||
		k.Ran.Load() != 4 {
		k.Errorf("after %d runs the dead letter is %+v", k.Ran.Load(), m)
	}
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
	k.send("a")
	<-began
	ending := k.Ending
	second := k.consume(succeed)
	k.send("a", "a", "a", "a")
	k.Until("seen in flight", func() bool { return k.Saw(queuesafe.InFlight) >= 8 })
	if k.Saw(queuesafe.Processed) != 0 {
		k.Error("it was processed twice at once")
	}
	go first()
	<-ending // or the first takes it again
	close(hold)
	k.Until("processed", func() bool { return k.Saw(queuesafe.Processed) == 1 && k.Saw(queuesafe.Duplicate) == 4 })
	second()
	k.wantLeft(0)
}

// Work that takes longer than AckWait is delivered once: the server is told that it goes on. Seen to fail with Extend
// left out of messageOf.
func TestLongWorkIsKeptByTheHeartbeat(t *testing.T) {
	k := newKit(t)
	told, err := k.js.Conn().SubscribeSync("$JS.ACK.>")
	if err != nil {
		k.Fatal(err)
	}
	stop := k.consume(func(ctx context.Context, m queuesafe.Message) error {
		if m.Extend == nil || m.ExtendEvery != k.config.AckWait/3 {
			k.Errorf("extended every %v", m.ExtendEvery)
			return nil
		}
		return m.Extend(ctx)
	})
	k.send("a")
	k.Until("processed", func() bool { return k.Saw(queuesafe.Processed) == 1 })
	stop()
	for _, want := range []string{"+WPI", "+ACK"} {
		for { // all consumers of this server acknowledge
			m, err := told.NextMsg(time.Minute)
			if err != nil {
				k.Fatalf("the server was not told %s: %v", want, err)
			}
			if strings.Contains(m.Subject, "."+k.name+".") {
				if string(m.Data) != want {
					k.Errorf("the server was told %s, want %s", m.Data, want)
				}
				break
			}
		}
	}
	k.wantLeft(0)
}

// What is not being handled stays with the server.
// Seen to fail with running.Wait taken out of Run: Run returned.
func TestStopWaitsForHandlersAndLeavesTheRest(t *testing.T) {
	k := newKit(t)
	k.o.Parallel = 1
	hold, began := make(chan struct{}), make(chan struct{}, 1)
	stop := k.consume(func(context.Context, queuesafe.Message) error {
		began <- struct{}{}
		k.Wait(hold)
		return nil
	})
	k.send("a", "b", "c")
	<-began
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	<-k.Ending
	select {
	case <-k.Ended:
		k.Error("Run has returned though a handler runs")
	case <-time.After(100 * time.Millisecond):
	}
	close(hold)
	<-stopped
	if k.Saw(queuesafe.Processed) != 1 || k.Count(queuesafe.Handled) != 1 || k.Count(queuesafe.SettleFailed) != 0 {
		k.Errorf("%+v", k.Events())
	}
	k.wantLeft(2)
}

// Seen to fail with a loop in consume that does not ask ctx.Err.
func TestEndedConsumerTakesNoMessage(t *testing.T) {
	k := newKit(t)
	k.send("a")
	c, _, err := k.newConsumer(succeed)
	if err != nil {
		t.Fatal(err)
	}
	k.EndsBeforeItsFirstMessage(c.Run)
}

// The server delivers a message while the consumer stops. A consumer that drops it delays it by AckWait. Seen to fail
// with Fetch, which drops messages that arrive after its context has ended.
func TestMessageOnItsWayWhenTheConsumerStopsIsGivenBack(t *testing.T) {
	k := newKit(t)
	k.config.AckWait = time.Hour
	network := held{&sync.RWMutex{}}
	k.dialer = network
	stop := k.consume(succeed)
	k.dialer = nil
	k.Until("pulling", func() bool { return k.state().NumWaiting > 0 })
	network.Lock()
	k.send("a")
	k.Until("delivered", func() bool { return k.state().NumAckPending == 1 })
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	<-k.Ending
	k.Until("no longer pulling", func() bool { return k.state().NumWaiting == 0 })
	network.Unlock()
	<-stopped
	k.consume(succeed)
	k.Until("processed", func() bool { return k.Saw(queuesafe.Processed) == 1 && k.left() == 0 })
	if k.Saw(queuesafe.Stopping) != 1 || k.Count(queuesafe.Handled) != 2 {
		k.Errorf("%+v", k.Events())
	}
}

func TestConsumersThatWouldLoseMessagesAreRefused(t *testing.T) {
	k := newKit(t)
	k.Core.MaxDeliveries, k.config.MaxDeliver = 20, 20
	if _, _, err := k.newConsumer(succeed); err == nil {
		k.Error("a server that gives up before the consumer does is not an error")
	}
	k.config.MaxDeliver = 21
	if _, _, err := k.newConsumer(succeed); err != nil {
		k.Error(err)
	}
	k.Core.MaxDeliveries = -1
	if _, _, err := k.newConsumer(succeed); err == nil {
		k.Error("a server that gives up, with a consumer that never does, is not an error")
	}
	k.config.MaxDeliver, k.o = -1, natssafe.Options{}
	if _, _, err := k.newConsumer(succeed); err == nil {
		k.Error("messages that are given up are lost, and that is no error")
	}
	k.o.DropDead = true
	if _, _, err := k.newConsumer(succeed); err != nil {
		k.Error(err)
	}
}

func TestRunEndsWithItsConsumer(t *testing.T) {
	k := newKit(t)
	c, _, err := k.newConsumer(succeed)
	if err != nil {
		k.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- c.Run(k.ctx) }()
	k.Until("connected", func() bool { return k.Count(queuesafe.Connected) == 1 })
	k.Until("pulling", func() bool {
		info, err := k.stream.Consumer(k.ctx, "billing")
		return err == nil && info.CachedInfo().NumWaiting > 0
	})
	if err := k.stream.DeleteConsumer(k.ctx, "billing"); err != nil {
		k.Fatal(err)
	}
	err = <-ended // not found, if no request of the consumer waited at the server at that moment
	if !errors.Is(err, jetstream.ErrConsumerDeleted) && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		k.Errorf("Run = %v", err)
	}
}

// nats.go reconnects without an error. Seen to fail with the connection's status ignored: Run did not tell of it.
func TestLostConnectionIsTold(t *testing.T) {
	t.Parallel()
	server := servers.StartNATS(t, servers.NATSOptions{})
	k := kitAt(t, server.URL())
	k.consume(succeed)
	k.Until("pulling", func() bool { return k.state().NumWaiting > 0 })
	server.Kill(t)
	k.Until("disconnected", func() bool { return k.Count(queuesafe.Disconnected) > 0 })
	server.Start(t)
	k.Until("connected again", func() bool { return k.Count(queuesafe.Connected) > 1 })
	k.send("a")
	k.Until("processed", func() bool { return k.Saw(queuesafe.Processed) == 1 && k.left() == 0 })
}

// The broker is killed amid. Nothing is lost, nothing runs twice. Acknowledgements may have survived: the client keeps
// them for the next connection.
func TestBrokerIsKilledAmid(t *testing.T) {
	t.Parallel()
	server := servers.StartNATS(t, servers.NATSOptions{})
	k := kitAt(t, server.URL())
	k.config.AckWait = time.Second
	var mu sync.Mutex
	effects := map[string]int{}
	const messages = 300
	hundred, killed := make(chan struct{}), make(chan struct{})
	stop := k.consume(func(_ context.Context, m queuesafe.Message) error {
		mu.Lock()
		effects[m.Header.Values(queuesafe.KeyHeader)[0]]++
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
	for i := range messages {
		k.send(fmt.Sprint(i))
	}
	<-hundred
	server.Kill(t)
	close(killed)
	server.Start(t)
	k.Until("all processed", func() bool { return k.Saw(queuesafe.Processed) == messages && k.left() == 0 })
	stop()
	for key, n := range effects {
		if n != 1 {
			t.Errorf("message %s had %d effects", key, n)
		}
	}
}

// What a sink sends twice is once in the stream. What no stream takes, or another one, has not been sent.
func TestSinkToConsumer(t *testing.T) {
	k := newKit(t)
	s := natssafe.NewSink(k.js, natssafe.SinkOptions{Stream: k.name})
	batch := []outbox.Delivery{
		{Message: outbox.Message{
			Key: "a", Topic: k.name + ".paid", Body: []byte("a"),
			Header: map[string]string{"Type": "paid"},
		}},
		{Message: outbox.Message{
			Key: "b", Topic: k.name + ".paid", Body: []byte("b"),
			Header: map[string]string{"Type": "paid"},
		}},
		{Message: outbox.Message{Key: "c", Topic: "nowhere", Body: []byte("c")}},
		{Message: outbox.Message{Key: "d", Topic: k.o.DeadLetters, Body: []byte("another stream's")}},
	}
	for range 2 {
		for i, err := range s.Send(k.ctx, batch) {
			if (err != nil) != (i >= 2) {
				k.Errorf("message %d: %v", i, err)
			}
		}
	}
	k.wantLeft(2)
	k.send("a")      // another message under this key
	k.o.Parallel = 1 // one after the other
	stop := k.consume(func(_ context.Context, m queuesafe.Message) error {
		if m.ID != string(m.Body) || m.Header.Values("type")[0] != "paid" {
			k.Errorf("got %+v", m)
		}
		return nil
	})
	k.Until("handled", func() bool { return k.Count(queuesafe.Handled) == 3 })
	stop()
	if k.Saw(queuesafe.Processed) != 2 || k.Saw(queuesafe.Mismatch) != 1 {
		k.Errorf("%+v", k.Events())
	}
}

// With the dead letters among what it consumes, a consumer would make a dead letter of each dead letter, for ever. Seen
// to fail without the question: one message was delivered 16,000 times within two seconds.
func TestOwnDeadLettersAreRefused(t *testing.T) {
	k := newKit(t)
	for _, c := range []struct {
		dead, filter string
		refused      bool
	}{
		{k.name + ".dead", "", true},
		{k.name + ".a.dead", k.name + ".*.dead", true},
		{k.name + ".a.dead", k.name + ".>", true},
		{k.name + ".dead", k.name + ".new", false},
		{k.name + ".a.dead", k.name + ".*", false},
		{k.name + ".dead", k.name + ".dead.>", false},
	} {
		k.o.DeadLetters, k.config.FilterSubject = c.dead, c.filter
		k.config.Durable = fmt.Sprintf("c%d", streams.Add(1))
		consumer, guard, err := k.newConsumer(func(context.Context, queuesafe.Message) error { return errBank })
		if err != nil {
			t.Fatal(err)
		}
		if !c.refused {
			k.Start(guard, consumer.Run)()
		} else {
			ctx, cancel := context.WithTimeout(k.ctx, time.Minute)
			defer cancel()
			if err := consumer.Run(ctx); err == nil {
				t.Errorf("dead letters to %s, consumer of %q: not refused", c.dead, c.filter)
			}
		}
		if err := k.stream.DeleteConsumer(k.ctx, k.config.Durable); err != nil {
			t.Fatal(err)
		}
	}
}
