package queues

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/queuesafe"
	"github.com/retrysafe/retrysafe/queuesafe/sqssafe"
)

type amazonSQS struct{}

func (amazonSQS) start(t testing.TB) (url, version string) {
	return servers.StartSQS(t).URL(), "SQS's protocol by " + servers.SQSVersion
}

func sqsClient(url string) *sqs.Client {
	return sqs.New(sqs.Options{
		Region: "us-east-1", BaseEndpoint: &url,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, nil
		}),
	})
}

func queueURL(ctx context.Context, client *sqs.Client, name string) (string, error) {
	out, err := client.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &name}) // it may already exist
	if err != nil {
		return "", err
	}
	return *out.QueueUrl, nil
}

func (amazonSQS) consume(ctx context.Context, url, name string, c *queuesafe.Consumer, h queuesafe.Handler) error {
	client := sqsClient(url)
	main, err := queueURL(context.Background(), client, name)
	if err != nil {
		return err
	}
	dead, err := queueURL(context.Background(), client, name+"-dead")
	if err != nil {
		return err
	}
	o := sqssafe.Options{Parallel: 8, Visibility: time.Second, DeadLetters: dead}
	return sqssafe.NewConsumer(client, main, c, h, o).Run(ctx)
}

func (amazonSQS) open(t testing.TB, url, name string) queue {
	t.Helper()
	q := &sqsQueue{client: sqsClient(url)}
	for name, to := range map[string]*string{name: &q.main, name + "-dead": &q.dead} {
		var err error
		if *to, err = queueURL(t.Context(), q.client, name); err != nil {
			t.Fatal(err)
		}
	}
	return q
}

type sqsQueue struct {
	client     *sqs.Client
	main, dead string // URLs
}

func (q *sqsQueue) publish(t testing.TB, ids []string) {
	t.Helper()
	var all sync.WaitGroup
	for len(ids) > 0 {
		some := min(len(ids), 10)
		var entries []types.SendMessageBatchRequestEntry
		for i, id := range ids[:some] {
			entries = append(entries, types.SendMessageBatchRequestEntry{
				Id: aws.String(strconv.Itoa(i)), MessageBody: aws.String(id),
				MessageAttributes: map[string]types.MessageAttributeValue{
					queuesafe.KeyHeader: {DataType: aws.String("String"), StringValue: aws.String(id)},
				},
			})
		}
		ids = ids[some:]
		all.Go(func() {
			out, err := q.client.SendMessageBatch(context.Background(),
				&sqs.SendMessageBatchInput{QueueUrl: &q.main, Entries: entries})
			if err != nil || len(out.Failed) > 0 {
				t.Errorf("send: %v, %v", out, err)
			}
		})
	}
	all.Wait()
}

func (q *sqsQueue) left(t testing.TB) (waiting, dead int) {
	t.Helper()
	count := func(url string) (n int) {
		out, err := q.client.GetQueueAttributes(context.Background(), &sqs.GetQueueAttributesInput{
			QueueUrl: &url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{
			"ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible",
			"ApproximateNumberOfMessagesDelayed",
		} {
			var some int
			if _, err := fmt.Sscan(out.Attributes[name], &some); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			n += some
		}
		return n
	}
	return count(q.main), count(q.dead)
}
