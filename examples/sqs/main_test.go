package main

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/retrysafe/retrysafe/examples/internal/till"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

func TestOneChargeForEachOrder(t *testing.T) {
	t.Setenv("AWS_REGION", "us-east-1")
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	c := client(servers.StartSQS(t).URL())
	var urls []string
	for _, name := range []string{"orders", "orders-dead"} {
		out, err := c.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name})
		if err != nil {
			t.Fatal(err)
		}
		urls = append(urls, *out.QueueUrl)
	}
	shop, err := till.Open(filepath.Join(t.TempDir(), "till.db"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- run(ctx, c, urls[0], urls[1], shop) }()

	for _, order := range []string{`{"order":"o-1","cents":1700}`, `{"order":"o-1","cents":1700}`, `{"order":"o-2"}`} {
		if _, err := c.SendMessage(ctx, &sqs.SendMessageInput{
			QueueUrl:    &urls[0],
			MessageBody: aws.String(order),
		}); err != nil {
			t.Fatal(err)
		}
	}
	for tick := time.Tick(10 * time.Millisecond); ; <-tick {
		dead, err := c.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
			QueueUrl: &urls[1], AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
		})
		if err != nil {
			t.Fatal(err)
		}
		_, charges, err := shop.Charges(ctx)
		if err != nil || charges > 0 && dead.Attributes["ApproximateNumberOfMessages"] == "1" {
			break
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if orders, charges, err := shop.Charges(t.Context()); orders != 1 || charges != 1 || err != nil {
		t.Errorf("%d charges for %d orders, %v", charges, orders, err)
	}
	if err := shop.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
