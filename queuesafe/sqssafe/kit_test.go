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
	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/queuesafe"
	"github.com/retrysafe/retrysafe/queuesafe/internal/queuetest"
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
	*queuetest.Kit
	client      *sqs.Client // the consumers'
	fault       *fault      // what may happen to it
	sender      *sqs.Client // the test's own
	queue, dead string      // URLs
	o           sqssafe.Options
}

func newKit(t *testing.T, suffix string) *kit {
	t.Helper()
	t.Parallel()
	server, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	k := &kit{Kit: queuetest.New(t, memstore.New(memstore.Options{})), fault: newFault()}
	k.client, k.sender = newClient(server.URL(), k.fault), newClient(server.URL(), newFault())
	name := fmt.Sprintf("orders%d", queues.Add(1))
	attributes := map[string]string{}
	if suffix == ".fifo" {
		attributes["FifoQueue"] = "true"
	}
	k.queue, k.dead = k.create(name+suffix, attributes), k.create(name+"-dead"+suffix, attributes)
	k.o.DeadLetters = k.dead
	k.Core.MaxDelay = 100 * time.Millisecond
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
	return k.Start(guard, c.Run)
}

func (k *kit) newConsumer(h queuesafe.Handler) (*retrysafe.Guard, *sqssafe.Consumer) {
	k.Helper()
	guard, core := k.NewCore()
	return guard, sqssafe.NewConsumer(k.client, k.queue, core, k.Counting(h), k.o)
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

// get waits for a message in a queue, and takes it. One whose answer is lost is visible again after a second: smithy-go
// (v1.28) closes a request's body once there is a response, and net/http gives a connection up whose request's body is
// closed under it.
func (k *kit) get(url string) types.Message {
	k.Helper()
	var out *sqs.ReceiveMessageOutput
	k.Until("received from "+url, func() bool {
		var err error
		out, err = k.sender.ReceiveMessage(k.Context(), &sqs.ReceiveMessageInput{
			QueueUrl: &url, WaitTimeSeconds: 20, VisibilityTimeout: 1, MaxNumberOfMessages: 1,
			MessageAttributeNames:       []string{"All"},
			MessageSystemAttributeNames: []types.MessageSystemAttributeName{"All"},
		})
		return err == nil && len(out.Messages) == 1
	})
	m := out.Messages[0]
	if _, err := k.sender.DeleteMessage(k.Context(),
		&sqs.DeleteMessageInput{QueueUrl: &url, ReceiptHandle: m.ReceiptHandle}); err != nil {
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
	for _, name := range []string{
		"ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible",
		"ApproximateNumberOfMessagesDelayed",
	} {
		var some int
		fmt.Sscan(out.Attributes[name], &some)
		n += some
	}
	return n
}

func (k *kit) untilEmpty() {
	k.Helper()
	k.Until("empty", func() bool { return k.left(k.queue) == 0 })
}
