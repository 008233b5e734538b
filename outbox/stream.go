package outbox

import (
	"context"
	"slices"
	"sync"
	"time"
)

// stream sends message by message. It takes more while others are being sent, so that a slow one holds up nothing but
// its slot.
func (r *Relay) stream(ctx context.Context, e *each) {
	s := &streaming{Relay: r, each: e, ahead: 1, freed: make(chan struct{}, 1), running: ctx}
	s.waiting, s.stopWaiting = context.WithCancel(ctx)
	defer func() { s.stopWaiting() }()
	defer s.batches.Wait()
	for ctx.Err() == nil {
		n := s.room(ctx)
		probe, ok := r.o.Circuit.enter(ctx)
		switch {
		case n == 0 || !ok:
			r.o.Circuit.giveBack(probe)
			continue // ctx has ended
		case probe:
			n = 1
		}
		began, isAlone := time.Now(), s.isEmpty()
		l, err := r.take(context.WithoutCancel(ctx), n, isAlone) // what was taken is sent, or given back
		if err != nil || len(l.batch) == 0 {
			r.o.Circuit.giveBack(probe)
		}
		switch {
		case err != nil:
			r.observe(ctx, Event{Kind: DatabaseFailed, Err: err})
			r.wait(ctx, nil)
		case l.suspect:
			s.recall()
			s.batches.Wait()
		case len(l.batch) == 0:
			r.wait(ctx, r.wake)
		case l.batch[0].suspect():
			s.enter(1)
			s.send(ctx, l, began, probe)
		default:
			s.enter(len(l.batch))
			s.batches.Go(func() { s.send(ctx, l, began, probe) })
		}
	}
}

// streaming is a relay at work.
type streaming struct {
	*Relay
	*each
	batches sync.WaitGroup
	freed   chan struct{} // after messages have ended

	mu sync.Mutex
	// inHand is the number of messages that were taken and have not ended.
	inHand int
	// ahead is how many messages are taken beyond those that can be sent at once: twice as many after a batch that was
	// sent fast, and half as many after another one, whose messages would wait here although other relays have time.
	ahead int
	// waiting is the context of messages that wait for a slot, made from that of the relay. stopWaiting gives them back.
	waiting, running context.Context
	stopWaiting      context.CancelFunc
}

// recall gives the messages back that wait for a slot.
func (s *streaming) recall() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopWaiting()
	s.waiting, s.stopWaiting = context.WithCancel(s.running)
}

// waitingContext is what the messages of a batch wait for a slot with.
func (s *streaming) waitingContext() context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting
}

// room waits until messages can be taken, and returns how many; 0 if ctx has ended. If there is room for few, it waits a
// moment for more.
func (s *streaming) room(ctx context.Context) int {
	for waited := false; ; {
		s.mu.Lock()
		most := cap(s.slots) + s.ahead
		if s.o.Circuit.isOpen() {
			most = cap(s.slots) // the one that tries whether the receiver is there again does not wait for others
		}
		n := min(most-s.inHand, s.o.Batch)
		s.mu.Unlock()
		if n > 0 && (waited || n >= most/2 || n == s.o.Batch || s.isEmpty()) {
			return n
		}
		var moment <-chan time.Time
		if n > 0 {
			moment = time.After(settleEvery)
		}
		select {
		case <-s.freed:
		case <-moment:
			waited = true
		case <-ctx.Done():
			return 0
		}
	}
}

func (s *streaming) isEmpty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inHand == 0
}

func (s *streaming) enter(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inHand += n
}

// settleEvery is how long the result of a message waits, at most, for those of others, so that they are saved together.
const settleEvery = 20 * time.Millisecond

// ended is the end of one message.
type ended struct {
	at     int // in the batch
	answer error
	late   bool // its turn did not come
}

// send sends the messages of a batch and saves the results as they come. The lease on the others is extended meanwhile; if
// that fails for three quarters of it, their sending is ended. When ctx ends, those that wait for a slot are given back.
// probe says that the message is that of an open Circuit.
func (s *streaming) send(ctx context.Context, l leased, began time.Time, probe bool) {
	waiting, stopWaiting := context.WithCancel(s.waitingContext())
	sending, stopSending := context.WithCancel(context.WithoutCancel(ctx))
	stop := func() {
		stopWaiting()
		stopSending()
	}
	defer stop()
	end := time.AfterFunc(s.o.Lease/4*3-time.Since(began), stop)
	defer end.Stop()
	extend := time.NewTicker(s.o.Lease / 3)
	defer extend.Stop()
	results := make(chan ended, len(l.batch))
	go s.start(waiting, sending, l, results)
	for open := l; len(open.batch) > 0; {
		done := gather(results, len(open.batch), extend.C)
		if len(done) == 0 {
			s.extend(ctx, open, end, stop)
			continue
		}
		s.leave(done, time.Since(began), probe)
		s.save(ctx, l, done, time.Since(began))
		for _, e := range done {
			open.batch = slices.DeleteFunc(slices.Clone(open.batch), func(d Delivery) bool { return d.ID == l.batch[e.at].ID })
		}
	}
}

// extend extends the lease on messages that are being sent, and with it the time after which end ends that.
func (s *streaming) extend(ctx context.Context, open leased, end *time.Timer, stop func()) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(databaseTime, s.o.Lease/3))
	defer cancel()
	began := time.Now()
	switch mine, err := s.box.extend(ctx, open, s.o.Lease); {
	case err != nil:
		s.observe(ctx, Event{Kind: DatabaseFailed, Err: err})
	case !mine: // others have taken all of them
		stop()
	default:
		end.Reset(s.o.Lease/4*3 - time.Since(began))
	}
}

// save saves results of a batch.
func (s *streaming) save(ctx context.Context, l leased, done []ended, took time.Duration) {
	part := leased{owner: l.owner, async: l.async}
	var answers []error
	var all []settled
	for _, e := range done {
		d := l.batch[e.at]
		part.batch, answers, all = append(part.batch, d), append(answers, e.answer), append(all, s.judge(d, e.answer))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.o.Lease)
	defer cancel()
	if err := s.end(ctx, part, all, answers, took); err != nil {
		s.observe(ctx, Event{Kind: DatabaseFailed, Err: err})
	}
	if slices.ContainsFunc(part.batch, func(d Delivery) bool { return d.Aggregate != "" }) {
		s.Wake() // the next of the aggregate may be due
	}
}

// start sends each message when there is a slot for it.
func (s *streaming) start(waiting, sending context.Context, l leased, results chan<- ended) {
	for i, d := range l.batch {
		err := s.unfit(d)
		if err == nil {
			err = s.each.wait(waiting)
		}
		if err != nil {
			results <- ended{i, err, true}
			continue
		}
		go func() {
			ctx, cancel := context.WithTimeout(sending, s.o.Timeout)
			defer cancel()
			results <- ended{i, s.one(ctx, d), false}
		}()
	}
}

// gather waits for one result, and for a moment for more of them, up to n. It returns none if tick comes first.
func gather(results <-chan ended, n int, tick <-chan time.Time) (done []ended) {
	select {
	case e := <-results:
		done = append(done, e)
	case <-tick:
		return nil
	}
	more := time.NewTimer(settleEvery)
	defer more.Stop()
	for len(done) < n {
		select {
		case e := <-results:
			done = append(done, e)
		case <-more.C:
			return done
		}
	}
	return done
}

// leave makes room for others.
func (s *streaming) leave(done []ended, took time.Duration, probe bool) {
	if s.o.Circuit.note(done, probe) {
		s.recall() // they would be tried in vain
	}
	s.mu.Lock()
	s.inHand -= len(done)
	if took < settleEvery*5 {
		s.ahead = min(2*s.ahead, s.o.Batch)
	} else {
		s.ahead = max(s.ahead/2, 1)
	}
	s.mu.Unlock()
	select {
	case s.freed <- struct{}{}:
	default:
	}
}
