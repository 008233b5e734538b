package outbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Sink sends messages: to a broker, to a webhook. Its methods are called by many goroutines at once.
type Sink interface {
	// Send tries to send each message of the batch, and answers for each at its place: nil if whoever receives it has it for
	// good; an error if it is to be tried again later, RetryAfter to say when; Permanent if another try is no use. A message without
	// an answer, because the slice is too short, is tried again.
	//
	// Send may send the messages in any order and all at once: of those with the same Aggregate a batch has but one. Each carries its
	// Key to the receiver. ctx ends before the relay's lease on the batch does; what is not sent by then is tried again. The batch must
	// not be changed or kept.
	Send(ctx context.Context, batch []Delivery) []error
}

// SinkFunc is a function that is a Sink.
type SinkFunc func(ctx context.Context, batch []Delivery) []error

// Send calls f.
func (f SinkFunc) Send(ctx context.Context, batch []Delivery) []error { return f(ctx, batch) }

// Each returns a Sink that sends every message by itself with send, at most n of a batch at once. What there is no time for before ctx
// ends is not tried, which does not count as a try: the slow do not use up the tries of others.
func Each(n int, send func(ctx context.Context, m Delivery) error) Sink {
	return SinkFunc(func(ctx context.Context, batch []Delivery) []error {
		answers := make([]error, len(batch))
		places := make(chan struct{}, max(n, 1))
		var all sync.WaitGroup
		for i := range batch {
			select {
			case places <- struct{}{}:
			case <-ctx.Done():
			}
			if ctx.Err() != nil { // there was no time for this one, even if a place has come free
				answers[i] = &answer{error: fmt.Errorf("outbox: no time was left for this message: %w", ctx.Err()), untried: true}
				continue
			}
			all.Go(func() {
				defer func() { <-places }()
				answers[i] = send(ctx, batch[i])
			})
		}
		all.Wait()
		return answers
	})
}

// Permanent marks err as the sink's word that another try is no use: the message becomes a dead letter at once.
// Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &answer{error: err, permanent: true}
}

// RetryAfter marks err with how long the receiver wants to be left alone: the message is not tried again before d has
// passed. RetryAfter(nil, d) is nil.
func RetryAfter(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &answer{error: err, after: d}
}

// IsPermanent reports whether err is marked by Permanent.
func IsPermanent(err error) bool {
	a, ok := asAnswer(err)
	return ok && a.permanent
}

// RetryDelay returns the delay that err is marked with by RetryAfter; 0 if there is none.
func RetryDelay(err error) time.Duration {
	if a, ok := asAnswer(err); ok {
		return a.after
	}
	return 0
}

// isUntried reports whether err stands for a message that Each has not sent.
func isUntried(err error) bool {
	a, ok := asAnswer(err)
	return ok && a.untried
}

// answer is an error with a mark. It prints as the error inside.
type answer struct {
	error
	permanent bool
	after     time.Duration
	untried   bool // it was not even sent
}

func (a *answer) Unwrap() error { return a.error }

// errNoAnswer stands for a place in the batch that a sink has left out.
var errNoAnswer = errors.New("outbox: the sink gave no answer for this message")

// send asks the sink, and makes its answers complete.
func send(ctx context.Context, s Sink, batch []Delivery) []error {
	answers := make([]error, len(batch))
	for i := range answers {
		answers[i] = errNoAnswer
	}
	copy(answers, s.Send(ctx, batch))
	return answers
}

func asAnswer(err error) (*answer, bool) {
	var a *answer
	ok := errors.As(err, &a)
	return a, ok
}
