package sqssafe

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// deleter deletes messages in batches. Messages that arrive during a request go into the next one, so a single message
// does not wait for a batch to fill.
type deleter struct {
	client *sqs.Client
	queue  string

	mu      sync.Mutex
	waiting []deletion
	busy    bool
}

type deletion struct {
	handle string
	answer chan error
}

var errNoAnswer = errors.New("sqssafe: SQS returned no result for this message")

// delete returns nil when SQS has deleted the message with a receipt handle. After an error the message may be deleted
// too.
func (d *deleter) delete(ctx context.Context, handle string) error {
	mine := deletion{handle: handle, answer: make(chan error, 1)}
	d.mu.Lock()
	d.waiting = append(d.waiting, mine)
	lead := !d.busy
	d.busy = true
	d.mu.Unlock()
	if lead {
		go d.work(context.WithoutCancel(ctx))
	}
	select {
	case err := <-mine.answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// work sends batches until no message waits.
func (d *deleter) work(ctx context.Context) {
	for {
		d.mu.Lock()
		n := min(len(d.waiting), maxBatch)
		batch := d.waiting[:n:n]
		d.waiting = d.waiting[n:]
		d.busy = n > 0
		d.mu.Unlock()
		if n == 0 {
			return
		}
		d.send(ctx, batch)
	}
}

func (d *deleter) send(ctx context.Context, batch []deletion) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	entries := make([]types.DeleteMessageBatchRequestEntry, len(batch))
	for i, b := range batch {
		entries[i] = types.DeleteMessageBatchRequestEntry{
			Id:            aws.String(strconv.Itoa(i)),
			ReceiptHandle: aws.String(b.handle),
		}
	}
	out, err := d.client.DeleteMessageBatch(ctx, &sqs.DeleteMessageBatchInput{QueueUrl: &d.queue, Entries: entries})
	for i, b := range batch {
		if err != nil {
			b.answer <- err
			continue
		}
		b.answer <- deleted(out, strconv.Itoa(i))
	}
}

func deleted(out *sqs.DeleteMessageBatchOutput, id string) error {
	for _, ok := range out.Successful {
		if aws.ToString(ok.Id) == id {
			return nil
		}
	}
	for _, no := range out.Failed {
		if aws.ToString(no.Id) == id {
			return failure(no)
		}
	}
	return errNoAnswer
}

func failure(e types.BatchResultErrorEntry) error {
	return fmt.Errorf("sqssafe: %s: %s", aws.ToString(e.Code), aws.ToString(e.Message))
}
