package kafkasafe

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/retrysafe/retrysafe/internal/retry"
	"github.com/retrysafe/retrysafe/queuesafe"
)

// partition holds the messages that a session has taken from one partition.
type partition struct {
	*session
	id   partitionID
	ctx  context.Context // ends when no more messages of the partition may start
	stop context.CancelFunc
	work sync.WaitGroup

	mu     sync.Mutex
	window []*entry            // taken messages by offset; the first one has not ended
	queues map[string][]*entry // by order key: the first message is being handled, the others wait for it
	paused bool
	ended  bool // nothing may be marked for a commit any more
}

// entry is a message that was taken from the partition.
type entry struct {
	record *kgo.Record
	order  string // the order key; "": none
	ended  bool
}

func newPartition(s *session, id partitionID) *partition {
	p := &partition{session: s, id: id, queues: map[string][]*entry{}}
	p.ctx, p.stop = context.WithCancel(s.ctx)
	return p
}

// take adds records, in their order, and starts those that need not wait for another one.
func (p *partition) take(records []*kgo.Record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range records {
		e := &entry{record: r, order: p.options.Order(r)}
		p.window = append(p.window, e)
		if e.order != "" {
			p.queues[e.order] = append(p.queues[e.order], e)
			if len(p.queues[e.order]) > 1 {
				continue // it waits for the message before it
			}
		}
		p.start(e)
	}
	if len(p.window) >= p.options.Window && !p.paused {
		p.paused = true
		p.client.PauseFetchPartitions(p.names())
	}
}

// start handles a message and then, one after the other, those that wait for it.
func (p *partition) start(e *entry) {
	p.work.Add(1)
	p.running.Go(func() {
		defer p.work.Done()
		for e != nil && p.settled(e.record) {
			e = p.done(e)
		}
	})
}

// settled handles a message until it has ended, as often as needed. It returns false if the partition is taken away
// first.
func (p *partition) settled(r *kgo.Record) bool {
	for delivery := 1; ; delivery++ {
		if !p.takeSlot() {
			return false
		}
		d := p.handle(r, delivery)
		<-p.slots
		if d.Action != queuesafe.Later {
			return true
		}
		if retry.Wait(p.ctx, max(d.Delay, minDelay)) != nil {
			return false
		}
	}
}

// takeSlot waits for a free slot. It returns false if the partition is taken away.
func (p *partition) takeSlot() bool {
	select {
	case p.slots <- struct{}{}:
	case <-p.ctx.Done():
		return false
	}
	if p.ctx.Err() != nil { // select may choose the slot although ctx has ended
		<-p.slots
		return false
	}
	return true
}

// minDelay prevents a tight loop with a message that is to be delivered again at once.
const minDelay = 10 * time.Millisecond

// handle handles a message once. If it is given up and sending it to the dead letters fails, it is handled again.
func (p *partition) handle(r *kgo.Record, delivery int) queuesafe.Disposition {
	m := messageOf(r, delivery)
	d := p.consumer.Handle(p.ctx, m, p.handler)
	if d.Action != queuesafe.Dead || p.options.DropDead {
		return d
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), callTimeout)
	defer cancel()
	if err := p.bury(ctx, r, d); err != nil {
		p.consumer.Tell(ctx, queuesafe.Event{Kind: queuesafe.SettleFailed, Source: m.Source, Delivery: delivery, Err: err})
		return queuesafe.Disposition{Action: queuesafe.Later, Delay: time.Second}
	}
	return d
}

// bury sends a dead letter. If it is too large with the headers that were added, bury sends it without them.
func (p *partition) bury(ctx context.Context, r *kgo.Record, d queuesafe.Disposition) error {
	letter := p.deadLetter(r, d)
	err := produce(ctx, p.client, letter)[0]
	if errors.Is(err, kerr.MessageTooLarge) {
		err = produce(ctx, p.client, &kgo.Record{Topic: letter.Topic, Key: r.Key, Value: r.Value, Headers: r.Headers})[0]
	}
	return err
}

// done notes that a message has ended, marks what can be committed, and returns the message that waited for it.
func (p *partition) done(e *entry) (next *entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.ended = true
	var last *kgo.Record
	for len(p.window) > 0 && p.window[0].ended {
		last, p.window = p.window[0].record, p.window[1:]
	}
	if last != nil && !p.ended {
		p.client.MarkCommitRecords(last)
	}
	if p.paused && len(p.window) <= p.options.Window/2 {
		p.resume()
	}
	return p.next(e)
}

// next removes a message that has ended from the queue of its order key, and returns the one behind it.
func (p *partition) next(e *entry) *entry {
	if e.order == "" {
		return nil
	}
	queue := p.queues[e.order][1:]
	if len(queue) == 0 {
		delete(p.queues, e.order)
		return nil
	}
	p.queues[e.order] = queue
	return queue[0]
}

func (p *partition) resume() {
	p.paused = false
	p.client.ResumeFetchPartitions(p.names())
}

// drain waits, after stop, until the handlers have ended or ctx ends.
func (p *partition) drain(ctx context.Context) {
	ended := make(chan struct{})
	go func() {
		p.work.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	}
}

// end prevents further commits. Running handlers go on until their keys have ended, which the next delivery will find.
func (p *partition) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	if p.paused {
		p.resume()
	}
}

func (p *partition) names() map[string][]int32 {
	return map[string][]int32{p.id.topic: {p.id.partition}}
}
