package outbox

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"
)

// batch takes one batch, sends it and saves the results. It returns the number of messages in the batch.
func (r *Relay) batch(ctx context.Context) (int, error) {
	began := time.Now()
	// The batch is finished even if ctx ends: messages that were taken would otherwise wait until the lease expires.
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), began.Add(r.o.Lease))
	defer cancel()
	l, err := r.take(ctx, r.o.Batch, true)
	if err != nil || len(l.batch) == 0 {
		return 0, err
	}
	sending := time.Now()
	answers := r.send(ctx, l, began)
	took := time.Since(sending)
	results := make([]settled, len(l.batch))
	for i, d := range l.batch {
		results[i] = r.judge(d, answers[i])
	}
	return len(l.batch), r.end(ctx, l, results, answers, took)
}

// end saves the results of messages and reports them.
func (r *Relay) end(ctx context.Context, l leased, results []settled, answers []error, took time.Duration) error {
	n, err := r.settle(ctx, l, results)
	if err != nil {
		return err
	}
	r.report(ctx, l, results, answers, took)
	if lost := len(l.batch) - n; lost > 0 {
		r.observe(ctx, Event{Kind: LeaseLost, Count: lost})
	}
	return nil
}

// take leases up to n messages. It takes none of a topic that is paused. isAlone says that nothing else is being sent.
func (r *Relay) take(ctx context.Context, n int, isAlone bool) (leased, error) {
	ctx, cancel := context.WithTimeout(ctx, databaseTime)
	defer cancel()
	if r.o.Topic != "" {
		if paused, err := r.box.Paused(ctx); err != nil || slices.Contains(paused, r.o.Topic) {
			return leased{}, err
		}
	}
	return r.box.take(ctx, n, r.o, &r.turns, isAlone)
}

// errNeverEnded is the error of a message that becomes a dead letter because no relay reported the end of its last
// try.
var errNeverEnded = errors.New("outbox: the last try did not finish: its relay crashed or was too slow")

// send sends the messages of a batch that can be sent, and returns an error, or nil, for every message of the batch.
func (r *Relay) send(ctx context.Context, l leased, began time.Time) []error {
	ctx, cancel := context.WithDeadline(ctx, began.Add(r.o.Lease/4*3))
	defer cancel()
	var fit []Delivery
	for _, d := range l.batch {
		if r.unfit(d) == nil {
			fit = append(fit, d)
		}
	}
	var answers []error
	if len(fit) > 0 {
		answers = send(ctx, r.sink, fit)
	}
	all := make([]error, len(l.batch))
	for i, d := range l.batch {
		if err := r.unfit(d); err != nil {
			all[i] = err
			continue
		}
		all[i], answers = answers[0], answers[1:]
	}
	return all
}

// unfit returns why a message cannot be sent, or nil.
func (r *Relay) unfit(d Delivery) error {
	if d.Try > r.o.MaxTries {
		return Permanent(errNeverEnded)
	}
	return d.Unreadable
}

// judge decides the next state of a message from the error of its try.
func (r *Relay) judge(d Delivery, err error) settled {
	s := settled{ID: d.ID, State: sent, Error: errorText(err)}
	switch {
	case err == nil:
	case IsPermanent(err) || r.o.MaxAge > 0 && d.Age >= r.o.MaxAge && !errors.Is(err, errLate):
		s.State = dead
	case isUntried(err):
		s.State, s.Untried = pending, 1
		s.Delay = min(RetryDelay(err), maxRetryDelay).Microseconds()
		if isUnseen(err) || errors.Is(err, errLate) && d.Unended > 0 {
			s.Owner = unseen
		}
	case d.Try >= r.o.MaxTries:
		s.State = dead
	default:
		s.State = pending
		s.Delay = max(r.delay(d.Try), min(RetryDelay(err), maxRetryDelay)).Microseconds()
	}
	return s
}

// maxRetryDelay is the longest delay that a receiver can ask for.
const maxRetryDelay = 24 * time.Hour

// delay returns a random delay below a limit that doubles with each try ("full jitter"), so that messages that failed
// together are not retried together.
func (r *Relay) delay(try int) time.Duration {
	limit := r.o.FirstDelay
	for ; try > 1 && limit < r.o.MaxDelay; try-- {
		limit *= 2
	}
	return rand.N(max(min(limit, r.o.MaxDelay), 1))
}

// settle saves the results of a batch. It retries until the lease expires; after that other relays send the messages
// anyway. If another transaction has locked some of the messages, settle saves the results of the unlocked ones at
// once and retries the rest.
func (r *Relay) settle(ctx context.Context, l leased, results []settled) (n int, err error) {
	free := 0
	for pause := 20 * time.Millisecond; ; pause *= 2 {
		if n, err = r.settleOnce(ctx, r.box.settle, l, results); err == nil {
			return free + n, nil
		}
		if ctx.Err() != nil {
			return free, err
		}
		r.observe(ctx, Event{Kind: DatabaseFailed, Err: err})
		for i := range results { // the database's encoding may be unable to store the error texts
			results[i].Error = asciiText(results[i].Error)
		}
		if n, err := r.settleOnce(ctx, r.box.settleFree, l, results); err == nil {
			free += n
		}
		if free == len(results) {
			return free, nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return free, err
		}
	}
}

// settleOnce runs one settle statement with a timeout of its own, even if the lease's context has just ended: the
// result counts unless another relay has taken the batch.
func (r *Relay) settleOnce(ctx context.Context, settle func(context.Context, leased, []settled) (int, error),
	l leased, results []settled,
) (int, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), databaseTime)
	defer cancel()
	return settle(ctx, l, results)
}

// databaseTime is the timeout of the statements that take a batch or save its results.
const databaseTime = 15 * time.Second

func (r *Relay) report(ctx context.Context, l leased, results []settled, answers []error, took time.Duration) {
	if r.o.Observer == nil {
		return
	}
	for i, d := range l.batch {
		e := Event{Kind: MessageSent, Key: d.Key, Topic: d.Topic, Try: d.Try, Age: d.Age, Took: took, Err: answers[i]}
		switch results[i].State {
		case pending:
			e.Kind = MessageFailed
		case dead:
			e.Kind = MessageDead
		}
		r.observe(ctx, e)
	}
	r.observe(ctx, Event{Kind: BatchEnded, Count: len(l.batch), Took: took})
}

func (r *Relay) observe(ctx context.Context, e Event) {
	if r.o.Observer != nil {
		r.o.Observer.Observe(ctx, e)
	}
}
