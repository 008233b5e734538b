package outbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Sink sends messages to a broker, a webhook or another receiver. Its methods are called concurrently.
type Sink interface {
	// Send tries to send each message of the batch and returns one result per message, in the order of the batch:
	//
	//   - nil if the receiver has durably accepted the message;
	//   - an error if the message should be retried; RetryAfter adds the earliest time;
	//   - an error wrapped by Permanent if a retry cannot succeed, which makes the message a dead letter.
	//
	// A message without a result, because the slice is too short, is retried.
	//
	// Send may send the messages in any order and concurrently: a batch never holds two messages of the same Aggregate.
	// Each message must carry its Key to the receiver. ctx ends before the relay's lease on the batch expires: Send then
	// returns, with an error, never nil, for each message that the receiver has not accepted. Send must not change or
	// keep the batch. Package sinktest checks an implementation.
	Send(ctx context.Context, batch []Delivery) []error
}

// SinkFunc is a function that implements Sink.
type SinkFunc func(ctx context.Context, batch []Delivery) []error

// Send calls f.
func (f SinkFunc) Send(ctx context.Context, batch []Delivery) []error { return f(ctx, batch) }

// Each returns a Sink that calls send for every message, for at most n messages at once. n below 1 means 1. If ctx ends
// before a message's turn, send is not called for it, and that does not count as a try: slow messages do not use up the
// tries of others.
//
// A relay does not wait with the next messages until the slowest of a batch is sent: see RelayOptions.Workers.
func Each(n int, send func(ctx context.Context, m Delivery) error) Sink {
	return &each{make(chan struct{}, max(n, 1)), send}
}

// each sends message by message.
type each struct {
	slots chan struct{}
	send  func(ctx context.Context, m Delivery) error
}

// Send implements Sink.
func (e *each) Send(ctx context.Context, batch []Delivery) []error {
	answers := make([]error, len(batch))
	var all sync.WaitGroup
	for i := range batch {
		if answers[i] = e.wait(ctx); answers[i] == nil {
			all.Go(func() { answers[i] = e.one(ctx, batch[i]) })
		}
	}
	all.Wait()
	return answers
}

// wait waits for a slot, which one gives back.
func (e *each) wait(ctx context.Context) error {
	select {
	case e.slots <- struct{}{}:
		if ctx.Err() == nil {
			return nil
		}
		<-e.slots // there was no time left for this message, even if a slot has become free
	case <-ctx.Done():
	}
	return Untried(fmt.Errorf("%w: %w", errLate, ctx.Err()))
}

// errLate is the error of a message whose turn did not come.
var errLate = errors.New("outbox: no time left for this message")

func (e *each) one(ctx context.Context, m Delivery) error {
	defer func() { <-e.slots }()
	return e.send(ctx, m)
}

// Permanent wraps err to say that a retry cannot succeed: the message becomes a dead letter at once. Permanent(nil)
// is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &answer{error: err, permanent: true}
}

// RetryAfter wraps err to say that the message must not be retried before d has passed. Delays over 24 hours count as
// 24 hours. RetryAfter(nil, d) is nil.
func RetryAfter(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &answer{error: err, after: d}
}

// Untried wraps err to say that nothing was sent, as if the receiver could not be reached: the try does not count, and
// opens a [Circuit] with others. What RetryAfter and Permanent have said of err stays. Untried(nil) is nil.
func Untried(err error) error {
	if err == nil {
		return nil
	}
	a := answer{error: err, untried: true}
	if known, ok := asAnswer(err); ok {
		a.permanent, a.after = known.permanent, known.after
	}
	return &a
}

// Postponed wraps err to say that nothing was sent for a reason that lies in this message alone: the try does not count,
// the message is due again after d, and nothing follows for others. Postponed(nil, d) is nil.
func Postponed(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &answer{error: err, after: d, untried: true, alone: true}
}

// Unseen wraps err, which is one of Untried or Postponed, to say that it stays unknown what became of the try before,
// or of this one: the next delivery has [Delivery.Unended], counted from when it is due. Until then the message
// counts as in flight. Unseen(nil) is nil.
func Unseen(err error) error {
	if err == nil {
		return nil
	}
	var a answer
	if known, ok := asAnswer(err); ok {
		a = *known
	}
	a.error, a.unseen = err, true
	return &a
}

// IsPermanent reports whether err was wrapped by Permanent.
func IsPermanent(err error) bool {
	a, ok := asAnswer(err)
	return ok && a.permanent
}

// RetryDelay returns the delay that RetryAfter gave err, or 0 if there is none.
func RetryDelay(err error) time.Duration {
	if a, ok := asAnswer(err); ok {
		return a.after
	}
	return 0
}

// isUntried reports whether err was wrapped by Untried.
func isUntried(err error) bool {
	a, ok := asAnswer(err)
	return ok && a.untried
}

// isUnseen reports whether err was wrapped by Unseen.
func isUnseen(err error) bool {
	a, ok := asAnswer(err)
	return ok && a.unseen
}

// saysNothing reports whether err was made by Postponed.
func saysNothing(err error) bool {
	a, ok := asAnswer(err)
	return ok && a.alone
}

// answer is an error with a mark. Its text is that of the wrapped error.
type answer struct {
	error
	permanent bool
	after     time.Duration
	untried   bool // the message was not sent
	alone     bool // which says nothing of the receiver
	unseen    bool // what became of it before is unknown
}

func (a *answer) Unwrap() error { return a.error }

// errNoAnswer is the result of a message for which the sink returned none.
var errNoAnswer = errors.New("outbox: the sink returned no result for this message")

// send calls the sink, and returns exactly one result per message.
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
