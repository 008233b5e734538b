package sqssafe_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/servers"
	"github.com/retrysafe/retrysafe/queuesafe"
	"github.com/retrysafe/retrysafe/queuesafe/sqssafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// shared is the server of all tests. It ends with the process.
var shared = sync.OnceValues(servers.LaunchSQS)

var (
	errBank = errors.New("the bank says no")
	queues  atomic.Int64
)

func succeed(context.Context, queuesafe.Message) error { return nil }

// kit has queues of its own, and a store that all its consumers share.
type kit struct {
	*testing.T
	client      *sqs.Client // the consumers'
	fault       *fault      // what may happen to it
	sender      *sqs.Client // the test's own
	queue, dead string      // URLs
	store       *memstore.Store
	o           sqssafe.Options
	core        queuesafe.Options
	p           retrysafe.Policy

	mu     sync.Mutex
	events []queuesafe.Event
	ran    atomic.Int64
}

func newKit(t *testing.T, suffix string) *kit {
	t.Helper()
	t.Parallel()
	server, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	k := &kit{T: t, store: memstore.New(memstore.Options{}), fault: newFault()}
	k.client, k.sender = newClient(server.URL(), k.fault), newClient(server.URL(), newFault())
	name := fmt.Sprintf("orders%d", queues.Add(1))
	attributes := map[string]string{}
	if suffix == ".fifo" {
		attributes["FifoQueue"] = "true"
	}
	k.queue, k.dead = k.create(name+suffix, attributes), k.create(name+"-dead"+suffix, attributes)
	k.o.DeadLetters, k.o.Visibility = k.dead, time.Second
	k.core.MinDelay, k.core.MaxDelay = 10*time.Millisecond, 100*time.Millisecond
	return k
}

func newClient(url string, f *fault) *sqs.Client {
	return sqs.New(sqs.Options{
		Region: "us-east-1", BaseEndpoint: &url, HTTPClient: f,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, nil
		}),
		RetryMaxAttempts: 1,
	})
}

func (k *kit) create(name string, attributes map[string]string) (url string) {
	k.Helper()
	out, err := k.sender.CreateQueue(k.Context(), &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
	if err != nil {
		k.Fatal(err)
	}
	return *out.QueueUrl
}

// consume runs a consumer with a guard of its own until the test or stop ends it.
func (k *kit) consume(h queuesafe.Handler) (stop func()) {
	k.Helper()
	guard, c := k.newConsumer(h)
	before := k.count(queuesafe.Connected)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := c.Run(ctx); err != nil {
			k.Error(err)
		}
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		<-done
		guard.Shutdown(context.Background())
	})
	k.Cleanup(stop)
	k.until("connected", func() bool { return k.count(queuesafe.Connected) > before })
	return stop
}

func (k *kit) newConsumer(h queuesafe.Handler) (*retrysafe.Guard, *sqssafe.Consumer) {
	k.Helper()
	core := k.core
	core.Observer = k.observe
	guard := retrysafe.New(k.store, retrysafe.Options{Policy: k.p})
	c, err := queuesafe.New(guard, "billing", core)
	if err != nil {
		k.Fatal(err)
	}
	counting := func(ctx context.Context, m queuesafe.Message) error {
		k.ran.Add(1)
		return h(ctx, m)
	}
	return guard, sqssafe.NewConsumer(k.client, k.queue, c, counting, k.o)
}

func (k *kit) observe(_ context.Context, e queuesafe.Event) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.events = append(k.events, e)
}

func (k *kit) count(kind queuesafe.EventKind) int {
	return k.countEvents(func(e queuesafe.Event) bool { return e.Kind == kind })
}

// saw counts the deliveries that ended in a situation.
func (k *kit) saw(s queuesafe.Situation) int {
	return k.countEvents(func(e queuesafe.Event) bool {
		return e.Kind == queuesafe.Handled && e.Disposition.Situation == s
	})
}

func (k *kit) countEvents(is func(queuesafe.Event) bool) (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, e := range k.events {
		if is(e) {
			n++
		}
	}
	return n
}

func (k *kit) until(what string, so func() bool) {
	k.Helper()
	end := time.NewTimer(30 * time.Second)
	defer end.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-end.C:
			k.mu.Lock()
			defer k.mu.Unlock()
			k.Fatalf("not %s in time; %d runs; seen: %+v", what, k.ran.Load(), k.events)
		}
	}
}

// send sends a message whose key is the ID, and to a FIFO queue, in a group, as a message of its own.
func (k *kit) send(id, group string) {
	k.Helper()
	in := &sqs.SendMessageInput{
		QueueUrl: &k.queue, MessageBody: aws.String("order " + id),
		MessageAttributes: map[string]types.MessageAttributeValue{
			queuesafe.KeyHeader: {DataType: aws.String("String"), StringValue: &id},
		},
	}
	if strings.HasSuffix(k.queue, ".fifo") {
		in.MessageGroupId, in.MessageDeduplicationId = &group, aws.String(fmt.Sprint(queues.Add(1)))
	}
	if _, err := k.sender.SendMessage(k.Context(), in); err != nil {
		k.Fatal(err)
	}
}

// get waits for a message in a queue, and takes it.
func (k *kit) get(url string) types.Message {
	k.Helper()
	out, err := k.sender.ReceiveMessage(k.Context(), &sqs.ReceiveMessageInput{
		QueueUrl: &url, WaitTimeSeconds: 20, MessageAttributeNames: []string{"All"},
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{"All"},
	})
	if err != nil || len(out.Messages) != 1 {
		k.Fatalf("received from %s: %v, %v", url, out, err)
	}
	m := out.Messages[0]
	if _, err := k.sender.DeleteMessage(k.Context(), &sqs.DeleteMessageInput{QueueUrl: &url, ReceiptHandle: m.ReceiptHandle}); err != nil {
		k.Fatal(err)
	}
	return m
}

// left is how many messages a queue has, visible or not.
func (k *kit) left(url string) (n int) {
	k.Helper()
	out, err := k.sender.GetQueueAttributes(k.Context(), &sqs.GetQueueAttributesInput{
		QueueUrl: &url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
	})
	if err != nil {
		k.Fatal(err)
	}
	for _, name := range []string{"ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessagesDelayed"} {
		var some int
		fmt.Sscan(out.Attributes[name], &some)
		n += some
	}
	return n
}

func (k *kit) untilEmpty() {
	k.Helper()
	k.until("empty", func() bool { return k.left(k.queue) == 0 })
}
