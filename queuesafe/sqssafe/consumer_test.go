package sqssafe_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/queuesafe"
	"github.com/retrysafe/retrysafe/queuesafe/sqssafe"
)

func TestProcessedIsGone(t *testing.T) {
	k := newKit(t, "")
	const messages = 40
	for i := range messages {
		k.send(fmt.Sprint(i), "")
	}
	k.send("0", "")
	stop := k.consume(succeed)
	k.Until("handled", func() bool { return k.Count(queuesafe.Handled) >= messages+1 })
	k.untilEmpty()
	stop()
	if k.Saw(queuesafe.Processed) != messages || k.Ran.Load() != messages {
		k.Errorf("%d runs, %+v", k.Ran.Load(), k.Events())
	}
	if n := k.fault.requests("DeleteMessageBatch"); n >= messages {
		k.Errorf("%d requests to delete %d messages", n, messages)
	}
}

// Seen to fail with the case of Dead taken out of settle: the message was gone.
func TestFailedForGoodIsADeadLetter(t *testing.T) {
	for _, suffix := range []string{"", ".fifo"} {
		t.Run("queue"+suffix, func(t *testing.T) {
			k := newKit(t, suffix)
			stop := k.consume(func(context.Context, queuesafe.Message) error { return errBank })
			k.send("a", "x")
			d := k.get(k.dead)
			k.untilEmpty()
			stop()
			if *d.Body != "order a" || aws.ToString(d.MessageAttributes[sqssafe.ReasonAttribute].StringValue) != "failed" ||
				aws.ToString(d.MessageAttributes[queuesafe.KeyHeader].StringValue) != "a" ||
				aws.ToString(d.MessageAttributes[sqssafe.IDAttribute].StringValue) == "" {
				k.Errorf("the dead letter is %+v", d)
			}
		})
	}
}

func TestDeadCanBeDropped(t *testing.T) {
	k := newKit(t, "")
	k.o.DropDead, k.o.DeadLetters = true, ""
	stop := k.consume(func(context.Context, queuesafe.Message) error { return errBank })
	k.send("a", "")
	k.Until("handled", func() bool { return k.Count(queuesafe.Handled) == 1 })
	k.untilEmpty()
	stop()
	if k.left(k.dead) != 0 {
		k.Error("there is a dead letter")
	}
}

// Each delivery after the first costs one read, until SQS has counted enough.
func TestDeadIsLeftToTheRedrivePolicy(t *testing.T) {
	k := newKit(t, "")
	k.o.DeadLetters = ""
	_, consumer := k.newConsumer(succeed)
	if err := consumer.Run(k.Context()); !errors.Is(err, sqssafe.ErrNoDeadLetters) {
		k.Errorf("Run without a redrive policy = %v", err)
	}
	out, err := k.client.GetQueueAttributes(k.Context(),
		&sqs.GetQueueAttributesInput{QueueUrl: &k.dead, AttributeNames: []types.QueueAttributeName{"QueueArn"}})
	if err != nil {
		k.Fatal(err)
	}
	policy := fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":4}`, out.Attributes["QueueArn"])
	if _, err := k.client.SetQueueAttributes(k.Context(), &sqs.SetQueueAttributesInput{
		QueueUrl: &k.queue, Attributes: map[string]string{"RedrivePolicy": policy},
	}); err != nil {
		k.Fatal(err)
	}
	stop := k.consume(func(context.Context, queuesafe.Message) error { return errBank })
	k.send("a", "")
	d := k.get(k.dead)
	stop()
	if *d.Body != "order a" || k.Ran.Load() != 1 || k.Saw(queuesafe.Failed) != 4 {
		k.Errorf("after %d runs and %d deliveries: %+v", k.Ran.Load(), k.Saw(queuesafe.Failed), d)
	}
}

// Seen to fail with Delivery left out of messageOf: it never was a dead letter.
func TestRetryableComesBackAfterItsDelay(t *testing.T) {
	k := newKit(t, "")
	k.Core.MaxDeliveries = 3
	began := time.Now()
	stop := k.consume(func(context.Context, queuesafe.Message) error { return retrysafe.Retryable(errBank) })
	k.send("a", "")
	d := k.get(k.dead)
	stop()
	if took := time.Since(began); took < 1500*time.Millisecond { // whole seconds are all that SQS has
		k.Errorf("three deliveries within %v", took)
	}
	if aws.ToString(d.MessageAttributes[sqssafe.ReasonAttribute].StringValue) != "retryable" || k.Ran.Load() != 3 {
		k.Errorf("after %d runs the dead letter is %+v", k.Ran.Load(), d)
	}
}

// Work that takes longer than the visibility is delivered once: SQS is told that it goes on. Seen to fail with Extend
// left out.
func TestVisibilityIsExtendedWhileTheHandlerRuns(t *testing.T) {
	k := newKit(t, "")
	k.o.Visibility = time.Minute
	s := k.script("", "x1")
	stop := k.consume(func(ctx context.Context, m queuesafe.Message) error {
		if m.Extend == nil || m.ExtendEvery != 20*time.Second {
			k.Errorf("extended every %v", m.ExtendEvery)
			return nil
		}
		return m.Extend(ctx)
	})
	k.Until("told", func() bool { return len(s.sorted()) == 2 })
	stop()
	if want := []string{"delete x1", "visible x1 60"}; !slices.Equal(s.sorted(), want) {
		k.Errorf("SQS was told %v, want %v", s.sorted(), want)
	}
}

// Two processes have copies of a message: the second leaves it until the first has ended. Seen to fail with Later
// deleted.
func TestInFlightElsewhereIsLeft(t *testing.T) {
	k := newKit(t, "")
	// SQS's stand-in may give it to the poll that the first has given up: then it soon comes again.
	k.o.Visibility = time.Second
	hold, began := make(chan struct{}), make(chan struct{})
	first := k.consume(func(context.Context, queuesafe.Message) error {
		close(began)
		k.Wait(hold)
		return retrysafe.Retryable(errBank)
	})
	k.send("a", "")
	<-began
	ending := k.Ending
	second := k.consume(succeed)
	k.send("a", "")
	k.Until("seen in flight", func() bool { return k.Saw(queuesafe.InFlight) >= 1 })
	go first()
	<-ending // or the first takes it again
	close(hold)
	k.Until("processed", func() bool { return k.Saw(queuesafe.Processed) == 1 && k.Saw(queuesafe.Duplicate) >= 1 })
	k.untilEmpty()
	second()
	if k.Ran.Load() != 2 {
		k.Errorf("%d runs", k.Ran.Load())
	}
}

// A process dies with the message: it comes again after its visibility, and is taken over.
func TestMessageOfADeadProcessComesAgain(t *testing.T) {
	k := newKit(t, "")
	k.Policy.OnAbandoned = retrysafe.Rerun()
	k.abandon("a", 1)
	k.send("a", "")
	out, err := k.client.ReceiveMessage(k.Context(),
		&sqs.ReceiveMessageInput{QueueUrl: &k.queue, VisibilityTimeout: 1, WaitTimeSeconds: 5})
	if err != nil || len(out.Messages) != 1 {
		k.Fatal(out, err)
	}
	stop := k.consume(func(_ context.Context, m queuesafe.Message) error {
		if m.Delivery != 2 {
			k.Errorf("delivery %d", m.Delivery)
		}
		return nil
	})
	k.Until("processed", func() bool { return k.Saw(queuesafe.Processed) == 1 })
	k.untilEmpty()
	stop()
}

func TestPoisonEnds(t *testing.T) {
	k := newKit(t, "")
	k.Policy.OnAbandoned, k.Core.MaxAttempts = retrysafe.Rerun(), 2
	k.abandon("a", 2)
	stop := k.consume(succeed)
	k.send("a", "")
	d := k.get(k.dead)
	stop()
	if aws.ToString(d.MessageAttributes[sqssafe.ReasonAttribute].StringValue) != "poison" || k.Ran.Load() != 0 {
		k.Errorf("after %d runs the dead letter is %+v", k.Ran.Load(), d)
	}
}

// abandon leaves a key as n processes would that died while they worked on it.
func (k *kit) abandon(id string, n int) {
	k.Helper()
	p := retrysafe.ClaimParams{
		Key:   retrysafe.Key{Scope: retrysafe.Scope("queue", "billing"), ID: id},
		Lease: time.Millisecond, Keep: retrysafe.Retention{}.WithDefaults(), TakeOver: true,
	}
	for range n {
		p.Owner = retrysafe.NewOwner()
		k.Until("claimed", func() bool {
			c, err := k.Store.Claim(context.Background(), p)
			return err == nil && c.Verdict == retrysafe.Acquired
		})
	}
}

// The request to delete does not reach SQS in time: the message comes again, and costs one read. Seen to fail with a
// key that is never the same.
func TestLostDeleteCostsOneRead(t *testing.T) {
	k := newKit(t, "")
	k.Core.Key = queuesafe.KeyByID()
	hold, began := make(chan struct{}), make(chan struct{}, 2)
	stop := k.consume(func(context.Context, queuesafe.Message) error {
		began <- struct{}{}
		k.Wait(hold)
		return nil
	})
	k.fault.loseRequests("DeleteMessageBatch", 1)
	k.send("a", "")
	<-began
	close(hold)
	var lost struct {
		Entries []struct{ ReceiptHandle string }
	}
	if err := json.Unmarshal(<-k.fault.denied, &lost); err != nil {
		k.Fatal(err)
	}
	// Its visibility ends.
	if _, err := k.sender.ChangeMessageVisibility(k.Context(), &sqs.ChangeMessageVisibilityInput{
		QueueUrl: &k.queue, ReceiptHandle: &lost.Entries[0].ReceiptHandle, VisibilityTimeout: 0,
	}); err != nil {
		k.Fatal(err)
	}
	k.Until("duplicate", func() bool { return k.Saw(queuesafe.Duplicate) == 1 })
	k.untilEmpty()
	stop()
	if k.Ran.Load() != 1 || k.Count(queuesafe.SettleFailed) != 1 {
		k.Errorf("%d runs, %+v", k.Ran.Load(), k.Events())
	}
}

// Seen to fail with running.Wait taken out of Run.
func TestStopWaitsForHandlersAndLeavesTheRest(t *testing.T) {
	k := newKit(t, "")
	k.o.Parallel = 1
	hold, began := make(chan struct{}), make(chan struct{}, 3)
	stop := k.consume(func(context.Context, queuesafe.Message) error {
		began <- struct{}{}
		k.Wait(hold)
		return nil
	})
	for _, id := range []string{"a", "b", "c"} {
		k.send(id, "")
	}
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
	if k.Saw(queuesafe.Processed) != 1 || k.Count(queuesafe.Handled) != 1 || k.left(k.queue) != 2 {
		k.Errorf("%d left, %+v", k.left(k.queue), k.Events())
	}
}

func TestQueueThatIsNotThereIsAnError(t *testing.T) {
	k := newKit(t, "")
	k.queue += "-not"
	_, c := k.newConsumer(succeed)
	if err := c.Run(context.Background()); err == nil {
		k.Error("Run = nil")
	}
}

// Answers of SQS are lost: nothing is, and nothing runs twice.
func TestLostAnswers(t *testing.T) {
	for _, action := range []string{"ReceiveMessage", "DeleteMessageBatch", "ChangeMessageVisibility", "SendMessage"} {
		t.Run(action, func(t *testing.T) {
			k := newKit(t, "")
			k.Core.MaxDeliveries = -1
			if action == "ReceiveMessage" {
				k.o.Visibility = time.Second // after which the messages come again
			}
			stop := k.consume(func(_ context.Context, m queuesafe.Message) error {
				switch {
				case string(m.Body) == "order 3" && m.Delivery < 2:
					return retrysafe.Retryable(errBank)
				case string(m.Body) == "order 4":
					return errBank
				}
				return nil
			})
			k.fault.loseAnswers(action, 1)
			for i := range 10 {
				k.send(fmt.Sprint(i), "")
			}
			k.Until("handled", func() bool { return k.Saw(queuesafe.Processed) == 9 && k.Saw(queuesafe.Failed) >= 1 })
			k.untilEmpty()
			stop()
			if n := k.left(k.dead); n < 1 || n > 2 { // two letters under one key, if the answer to the first was lost
				k.Errorf("%d dead letters", n)
			}
		})
	}
}

// A message as large as SQS takes has no room for a reason. Seen to fail with the attributes always added: it came
// again, once a second, until the queue's retention ended.
func TestLargestMessageBecomesADeadLetter(t *testing.T) {
	k := newKit(t, "")
	k.consume(func(context.Context, queuesafe.Message) error { return errBank })
	body := strings.Repeat("x", 1<<20)
	if _, err := k.sender.SendMessage(t.Context(),
		&sqs.SendMessageInput{QueueUrl: &k.queue, MessageBody: &body}); err != nil {
		t.Fatal(err)
	}
	k.untilEmpty()
	if m := k.get(k.dead); *m.Body != body {
		t.Errorf("the dead letter has %d bytes", len(*m.Body))
	}
}
