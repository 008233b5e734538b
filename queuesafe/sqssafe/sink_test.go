package sqssafe_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/outbox/sinktest"
	"github.com/retrysafe/retrysafe/queuesafe"
	"github.com/retrysafe/retrysafe/queuesafe/sqssafe"
)

func batchOf(all ...outbox.Message) (batch []outbox.Delivery) {
	for _, m := range all {
		batch = append(batch, outbox.Delivery{Message: m, Try: 1})
	}
	return batch
}

// What the sink sends, the consumer reads the key of.
func TestSink(t *testing.T) {
	k := newKit(t, "")
	var all []outbox.Message
	for i := range 25 {
		all = append(all, outbox.Message{
			Key: fmt.Sprintf("msg_%d", i), Topic: k.queue,
			Header: map[string]string{"type": "paid"}, Body: []byte("paid ünder <5>"),
		})
	}
	sink := sqssafe.NewSink(k.client, sqssafe.SinkOptions{})
	for range 2 { // at least once
		for i, err := range sink.Send(t.Context(), batchOf(all...)) {
			if err != nil {
				t.Errorf("message %d: %v", i, err)
			}
		}
	}
	if n := k.fault.requests("SendMessageBatch"); n != 6 {
		t.Errorf("%d requests, want 6", n)
	}
	stop := k.consume(succeed)
	k.Until("handled", func() bool { return k.Saw(queuesafe.Processed) == 25 && k.Saw(queuesafe.Duplicate) == 25 })
	k.untilEmpty()
	stop()
}

// Seen to fail with the answers of outbox.Each dropped: requests for which there was no time counted as accepted.
func TestSinkTellsWhatItHasNotSent(t *testing.T) {
	k := newKit(t, "")
	sinktest.Run(t, sqssafe.NewSink(k.client, sqssafe.SinkOptions{}),
		func() outbox.Message { return outbox.Message{Topic: k.queue, Body: []byte("paid")} },
		func() (keys []string) {
			out, err := k.sender.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{
				QueueUrl: &k.queue, MaxNumberOfMessages: 10, MessageAttributeNames: []string{"All"},
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range out.Messages {
				keys = append(keys, aws.ToString(m.MessageAttributes[queuesafe.KeyHeader].StringValue))
			}
			return keys
		})
}

func TestSinkSendsToFIFO(t *testing.T) {
	k := newKit(t, ".fifo")
	sink := sqssafe.NewSink(k.client, sqssafe.SinkOptions{QueueURL: func(outbox.Message) string { return k.queue }})
	long := strings.Repeat("x", 200)
	for range 2 { // within the five minutes in which SQS drops copies
		for i, err := range sink.Send(t.Context(), batchOf(
			outbox.Message{Key: "a", Aggregate: "order 17", Body: []byte("a")}, outbox.Message{Key: long, Body: []byte("b")},
		)) {
			if err != nil {
				t.Errorf("message %d: %v", i, err)
			}
		}
	}
	got := map[string]string{}
	for range 2 {
		m := k.get(k.queue)
		got[*m.Body] = m.Attributes["MessageDeduplicationId"]
		if key := aws.ToString(m.MessageAttributes[queuesafe.KeyHeader].StringValue); *m.Body == "b" && key != long {
			t.Errorf("the key is %q", key)
		}
	}
	if got["a"] != "a" || len(got["b"]) != 64 || k.left(k.queue) != 0 {
		t.Errorf("deduplication IDs %v; %d left", got, k.left(k.queue))
	}
}

// Seen to fail with unfit taken out of Send: one that SQS refuses took the others of its request with it.
func TestSinkKeepsWhatSQSCannotTake(t *testing.T) {
	k := newKit(t, "")
	many := map[string]string{}
	for i := range 10 {
		many[fmt.Sprint("h", i)] = "v"
	}
	m := func(body string, header map[string]string) outbox.Message {
		return outbox.Message{Key: outbox.NewKey(), Topic: k.queue, Body: []byte(body), Header: header}
	}
	missing := m("x", nil)
	missing.Topic += "-not"
	answers := sqssafe.NewSink(k.client, sqssafe.SinkOptions{}).Send(t.Context(), batchOf(
		m("fine", nil), m("", nil), m("\xff", nil), m("\x00", nil), m("x", many), missing, m("fine too", nil),
	))
	for i, want := range []string{"sent", "permanent", "permanent", "permanent", "permanent", "later", "sent"} {
		got := "sent"
		if outbox.IsPermanent(answers[i]) {
			got = "permanent"
		} else if answers[i] != nil {
			got = "later"
		}
		if got != want {
			t.Errorf("message %d: %s, want %s: %v", i, got, want, answers[i])
		}
	}
	if n := k.left(k.queue); n != 2 {
		t.Errorf("%d messages in the queue", n)
	}
}

// What SQS's reference rules out: it may refuse a whole request for one such message, for ever. Seen to fail with the
// headers not looked at, and with BatchRequestTooLong taken for something that passes.
func TestSinkTellsWhatIsNoUse(t *testing.T) {
	k := newKit(t, "")
	m := func(name, value, body string) outbox.Message {
		return outbox.Message{
			Key: outbox.NewKey(), Topic: k.queue, Body: []byte(body),
			Header: map[string]string{name: value},
		}
	}
	bad := []outbox.Message{
		m("type", "paid", strings.Repeat("x", 1<<20)), m("no name", "v", "x"), m("AWS.x", "v", "x"), m("amazon.x", "v", "x"),
		m("x..y", "v", "x"), m("x.", "v", "x"), m(strings.Repeat("n", 257), "v", "x"), m("", "v", "x"),
		m("empty", "", "x"), m("odd", "\x00", "x"),
	}
	for i, err := range sqssafe.NewSink(k.client, sqssafe.SinkOptions{}).Send(t.Context(), batchOf(append(bad,
		m("a-b_c.D1", "ü", "x"), m("type", "paid", strings.Repeat("x", 300<<10)),
	)...)) {
		if i < len(bad) && !outbox.IsPermanent(err) || i >= len(bad) && err != nil {
			t.Errorf("message %d: %v", i, err)
		}
	}
}
