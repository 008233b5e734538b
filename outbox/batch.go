package outbox

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// batch takes, sends and settles one batch, and returns how many messages it had.
func (r *Relay) batch(ctx context.Context) (int, error) {
	began := time.Now()
	// From here on the end of ctx changes nothing: what is taken would have to wait for the end of its lease.
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), began.Add(r.o.Lease))
	defer cancel()
	l, err := r.take(ctx)
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
	n, err := r.settle(ctx, l, results)
	if err != nil {
		return len(l.batch), err
	}
	r.tell(ctx, l, results, answers, took)
	if lost := len(l.batch) - n; lost > 0 {
		r.observe(ctx, Event{Kind: LeaseLost, Count: lost})
	}
	return len(l.batch), nil
}

func (r *Relay) take(ctx context.Context) (leased, error) {
	ctx, cancel := context.WithTimeout(ctx, databaseTime)
	defer cancel()
	return r.box.take(ctx, r.o.Batch, r.o.Lease, r.o.PassDead)
}

// errNeverEnded stands for the last try of a message whose relays have all died.
var errNeverEnded = errors.New("outbox: its last try never ended: whoever made it died, or was too slow")

// send sends what may be sent of a batch.
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
			all[i] = Permanent(err)
			continue
		}
		all[i], answers = answers[0], answers[1:]
	}
	return all
}

// unfit says why a message cannot be sent.
func (r *Relay) unfit(d Delivery) error {
	if d.Try > r.o.MaxTries {
		return errNeverEnded
	}
	return d.unfit
}

// judge says what becomes of a message after a try.
func (r *Relay) judge(d Delivery, err error) settled {
	s := settled{ID: d.ID, State: sent, Error: errorText(err)}
	switch {
	case err == nil:
	case isUntried(err):
		s.State, s.Untried = pending, 1
	case IsPermanent(err) || d.Try >= r.o.MaxTries:
		s.State = dead
	default:
		s.State = pending
		s.Delay = max(r.delay(d.Try), min(RetryDelay(err), maxRetryDelay)).Microseconds()
	}
	return s
}

// maxRetryDelay is how long a receiver can put a message off.
const maxRetryDelay = 24 * time.Hour

// delay is drawn at random below a limit that doubles with each try ("full jitter"), so that many messages that failed together do not
// come back together.
func (r *Relay) delay(try int) time.Duration {
	limit := r.o.FirstDelay
	for ; try > 1 && limit < r.o.MaxDelay; try-- {
		limit *= 2
	}
	return rand.N(max(min(limit, r.o.MaxDelay), 1))
}

// settle saves what has become of a batch, for as long as the lease runs: after it, others send it anyway. A message that somebody's transaction
// holds keeps the others waiting once, and no longer.
func (r *Relay) settle(ctx context.Context, l leased, results []settled) (n int, err error) {
	free := 0
	for pause := 20 * time.Millisecond; ; pause *= 2 {
		if n, err = r.inTime(ctx, r.box.settle, l, results); err == nil {
			return free + n, nil
		}
		if ctx.Err() != nil {
			return free, err
		}
		r.observe(ctx, Event{Kind: DatabaseFailed, Err: err})
		for i := range results { // it may be their text that the database cannot hold, in an encoding of its own
			results[i].Error = asciiText(results[i].Error)
		}
		if n, err := r.inTime(ctx, r.box.settleFree, l, results); err == nil {
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

// inTime gives the database its time: a try that began late counts unless somebody else has taken the batch.
func (r *Relay) inTime(ctx context.Context, settle func(context.Context, leased, []settled) (int, error), l leased, results []settled) (int, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), databaseTime)
	defer cancel()
	return settle(ctx, l, results)
}

// databaseTime is how long the database may take to give a batch, or to save what has become of it.
const databaseTime = 15 * time.Second

func (r *Relay) tell(ctx context.Context, l leased, results []settled, answers []error, took time.Duration) {
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
