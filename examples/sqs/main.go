// Command sqs charges for the orders in an SQS queue, once for each order, even if it is delivered or sent repeatedly.
//
//	AWS_REGION=… AWS_ACCESS_KEY_ID=… AWS_SECRET_ACCESS_KEY=… go run ./examples/sqs QUEUE_URL DEAD_LETTERS_URL
//
// Send {"order":"o-1","cents":1700}, twice: one charge. Send {"order":"o-2"}: a copy goes to the dead letters. Kill
// the program while it works, and start it again: still one charge each.
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/retrysafe/retrysafe/examples/internal/till"
	"github.com/retrysafe/retrysafe/queuesafe/sqssafe"
)

func main() {
	if err := start(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func start(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: sqs QUEUE_URL DEAD_LETTERS_URL")
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	t, err := till.Open("till.db")
	if err != nil {
		return err
	}
	return errors.Join(run(ctx, client(""), args[0], args[1], t), t.Close(context.Background()))
}

// client returns an SQS client with the credentials of the environment; the module aws-sdk-go-v2/config supports more
// sources.
func client(endpoint string) *sqs.Client {
	o := sqs.Options{
		Region: os.Getenv("AWS_REGION"),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{
				AccessKeyID: os.Getenv("AWS_ACCESS_KEY_ID"), SecretAccessKey: os.Getenv("AWS_SECRET_ACCESS_KEY"),
				SessionToken: os.Getenv("AWS_SESSION_TOKEN"),
			}, nil
		}),
	}
	if endpoint != "" {
		o.BaseEndpoint = &endpoint
	}
	return sqs.New(o)
}

// run consumes until ctx ends, and then waits for the running handlers.
func run(ctx context.Context, client *sqs.Client, queueURL, deadURL string, t *till.Till) error {
	return sqssafe.NewConsumer(client, queueURL, t.Consumer, t.Charge, sqssafe.Options{DeadLetters: deadURL}).Run(ctx)
}
