package kafkasafe_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/outbox/sinktest"
	"github.com/retrysafe/retrysafe/queuesafe"
	"github.com/retrysafe/retrysafe/queuesafe/kafkasafe"
)

func (k *kit) sink(opts ...kgo.Opt) (*kafkasafe.Sink, error) {
	k.Helper()
	client, err := kgo.NewClient(append(opts, kgo.SeedBrokers(k.cluster.ListenAddrs()...))...)
	if err != nil {
		k.Fatal(err)
	}
	k.Cleanup(client.Close)
	return kafkasafe.NewSink(client, kafkasafe.SinkOptions{})
}

// What the sink sends, the consumer reads the key of. The broker's first answer is lost.
func TestSink(t *testing.T) {
	k := newKit(t, 3)
	k.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Err: kerr.RequestTimedOut, Count: 1})
	sink, err := k.sink()
	if err != nil {
		t.Fatal(err)
	}
	m := outbox.Message{
		Topic: topic, Key: `"a"`, Aggregate: "order-17", Header: map[string]string{"type": "paid"},
		Body: []byte("paid"),
	}
	loose := outbox.Message{Topic: topic, Key: "b", Body: []byte("loose")}
	for range 2 { // at least once
		for _, err := range sink.Send(t.Context(), []outbox.Delivery{{Message: m}, {Message: loose}}) {
			if err != nil {
				t.Error(err)
			}
		}
	}
	at := map[int32]int{}
	for _, r := range k.get(topic, 4) {
		if string(r.Value) == "loose" {
			if r.Key != nil {
				t.Errorf("the record is %+v", r)
			}
			continue
		}
		at[r.Partition]++
		if string(r.Key) != "order-17" || header(r, "type") != "paid" {
			t.Errorf("the record is %+v", r)
		}
	}
	if len(at) != 1 {
		t.Errorf("one aggregate is in %d partitions", len(at))
	}
	c := k.consume(succeed)
	k.Until("handled", func() bool { return k.Saw(queuesafe.Processed) == 2 && k.Saw(queuesafe.Duplicate) == 2 })
	c.stop()
}

func TestSinkTellsWhatIsNoUse(t *testing.T) {
	k := newKit(t, 1)
	sink, err := k.sink(kgo.UnknownTopicRetries(0), kgo.RecordRetries(1))
	if err != nil {
		t.Fatal(err)
	}
	answers := sink.Send(t.Context(), []outbox.Delivery{
		{Message: outbox.Message{Topic: topic, Key: "a", Body: []byte(strings.Repeat("x", 2<<20))}},
		{Message: outbox.Message{Topic: "not-there", Key: "b"}},
		{Message: outbox.Message{Topic: topic, Key: "c"}},
	})
	if !outbox.IsPermanent(answers[0]) || answers[1] == nil || outbox.IsPermanent(answers[1]) || answers[2] != nil {
		t.Errorf("answers: %v", answers)
	}
}

// Seen to fail with NewSink not asking.
func TestSinkNeedsAClientThatWaitsForAll(t *testing.T) {
	k := newKit(t, 1)
	for _, opts := range [][]kgo.Opt{
		{kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite()},
		{kgo.DisableIdempotentWrite()},
	} {
		if _, err := k.sink(opts...); err == nil {
			t.Error("NewSink took a client that may lose or double records")
		}
	}
}

// limit sets the size of what a topic takes at once.
func (k *kit) limit(topic, bytes string) {
	k.Helper()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	c.Name, c.Value, c.Op = "max.message.bytes", &bytes, kmsg.IncrementalAlterConfigOpSet
	r.Configs = append(r.Configs, c)
	request := kmsg.NewPtrIncrementalAlterConfigsRequest()
	request.Resources = append(request.Resources, r)
	answer, err := request.RequestWith(k.Context(), k.client)
	if err != nil || answer.Resources[0].ErrorCode != 0 {
		k.Fatal(answer, err)
	}
}

// Seen to fail with the error of a batch used for each of its messages: all that were sent together failed permanently.
func TestSinkTellsWhichOneIsTooLarge(t *testing.T) {
	k := newKit(t, 1)
	k.limit(topic, "2000")
	sink, err := k.sink(kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		t.Fatal(err)
	}
	var batch []outbox.Delivery
	for i := range 20 {
		m := outbox.Message{Topic: topic, Key: fmt.Sprint(i), Body: []byte(strings.Repeat("x", 500))}
		if i == 7 {
			m.Body = []byte(strings.Repeat("x", 3000))
		}
		batch = append(batch, outbox.Delivery{Message: m})
	}
	for i, err := range sink.Send(t.Context(), batch) {
		if (err != nil) != (i == 7) || outbox.IsPermanent(err) != (i == 7) {
			t.Errorf("message %d: %v", i, err)
		}
	}
}

// An idempotent producer does not let go of what it may have written. Seen to fail with ProduceSync: Send hung until a
// broker answered.
func TestSinkEndsWithItsContext(t *testing.T) {
	k := newKit(t, 1)
	stuck := topic + ".dead"
	fault := k.cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Produce}, Topic: stuck, Err: kerr.RequestTimedOut, Count: -1,
	})
	sink, err := k.sink()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var answers []error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		answers = sink.Send(ctx, []outbox.Delivery{
			{Message: outbox.Message{Topic: stuck, Key: "a"}}, {Message: outbox.Message{Topic: topic, Key: "b"}},
		})
	}()
	k.Until("sent", func() bool { return k.cluster.PartitionInfo(topic, 0).HighWatermark == 1 })
	sent := fault.Hits()
	k.Until("sent again", func() bool { return fault.Hits() >= sent+2 }) // the client has the other answer by then
	cancel()
	k.Until("ended", func() bool {
		select {
		case <-ended:
			return true
		default:
			return false
		}
	})
	if !errors.Is(answers[0], context.Canceled) || answers[1] != nil {
		t.Errorf("answers: %v", answers)
	}
}

// answeredFirst ends a context once the brokers have answered, while the last record of a batch is still being handed
// over.
type answeredFirst struct {
	answers chan struct{}
	end     context.CancelFunc
}

func (h answeredFirst) OnProduceRecordBuffered(r *kgo.Record) {
	if string(r.Value) == "last" {
		for range cap(h.answers) - 1 {
			<-h.answers
		}
		h.end()
	}
}

// OnProduceRecordUnbuffered is called just before the answer is given, one after the other.
func (h answeredFirst) OnProduceRecordUnbuffered(*kgo.Record, error) { h.answers <- struct{}{} }

// A message whose answer came before the context ended is reported as sent. Seen to fail with produce returning at the
// end of the context without a look at results.
func TestSinkKeepsAnswersThatCameBeforeTheEndOfItsContext(t *testing.T) {
	k := newKit(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	batch := make([]outbox.Delivery, 22)
	for i := range batch {
		batch[i].Message = outbox.Message{Topic: topic, Key: fmt.Sprint(i), Body: []byte("one")}
	}
	batch[len(batch)-1].Body = []byte("last")
	sink, err := k.sink(kgo.WithHooks(answeredFirst{make(chan struct{}, len(batch)), cancel}))
	if err != nil {
		t.Fatal(err)
	}
	// The answer to the last but one may come after the end.
	if sent := sink.Send(ctx, batch)[:len(batch)-2]; errors.Join(sent...) != nil || ctx.Err() == nil {
		t.Errorf("answers: %v", sent)
	}
}

// Seen to fail with nil for the records without an answer when the context ends.
func TestSinkTellsWhatItHasNotSent(t *testing.T) {
	k := newKit(t, 3)
	sink, err := k.sink()
	if err != nil {
		t.Fatal(err)
	}
	reader := k.newClient(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	sinktest.Run(t, sink, func() outbox.Message { return outbox.Message{Topic: topic} }, func() (keys []string) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		for _, r := range reader.PollFetches(ctx).Records() {
			keys = append(keys, header(r, queuesafe.KeyHeader))
		}
		return keys
	})
}
