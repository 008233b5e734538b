package main

import (
	"context"
	"net/url"
	"os"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/retrysafe/retrysafe/queuesafe/sqssafe"
)

// runSQS consumes from a queue. A copy of each dead letter goes to the queue with "-dead" after its name. Both queues
// must exist. AWS_REGION, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY must be set.
func runSQS(ctx context.Context, queueURL string, t *till) error {
	client, err := newSQSClient(queueURL)
	if err != nil {
		return err
	}
	o := sqssafe.Options{DeadLetters: queueURL + "-dead"}
	return sqssafe.NewConsumer(client, queueURL, t.consumer, t.charge, o).Run(ctx)
}

// newSQSClient returns a client for the server of a URL, with the credentials of the environment; the module
// aws-sdk-go-v2/config supports more sources.
func newSQSClient(serverURL string) (*sqs.Client, error) {
	u, err := url.Parse(serverURL)
	if err != nil {
		return nil, err
	}
	return sqs.New(sqs.Options{
		BaseEndpoint: aws.String(u.Scheme + "://" + u.Host),
		Region:       os.Getenv("AWS_REGION"),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{
				AccessKeyID: os.Getenv("AWS_ACCESS_KEY_ID"), SecretAccessKey: os.Getenv("AWS_SECRET_ACCESS_KEY"),
				SessionToken: os.Getenv("AWS_SESSION_TOKEN"),
			}, nil
		}),
	}), nil
}
