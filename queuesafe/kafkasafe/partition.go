package kafkasafe

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/retrysafe/retrysafe/internal/retry"
	"github.com/retrysafe/retrysafe/queuesafe"
)

// partition is what a session has taken of one.
type partition struct {
	*session
	at   place
	ctx  context.Context // ends when nothing more of the partition is to begin
	stop context.CancelFunc
	work sync.WaitGroup

	mu     sync.Mutex
	window []*entry            // what was taken, by offset, from the first one that has not ended
	lanes  map[string][]*entry // what is in order, and waits for its first one
	paused bool
	over   bool // nothing is marked any more
}

// entry is a message that was taken.
type entry struct {
	record *kgo.Record
	order  string // "": none
	ended  bool
}

func newPartition(s *session, at place) *partition {
	p := &partition{session: s, at: at, lanes: map[string][]*entry{}}
	p.ctx, p.stop = context.WithCancel(s.ctx)
	return p
}

// take begins with records, in their order.
func (p *partition) take(records []*kgo.Record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range records {
		e := &entry{record: r, order: p.options.Order(r)}
		p.window = append(p.window, e)
		if e.order != "" {
			p.lanes[e.order] = append(p.lanes[e.order], e)
			if len(p.lanes[e.order]) > 1 {
				continue // it waits for the one before it
			}
		}
		p.start(e)
	}
	if len(p.window) >= p.options.Window && !p.paused {
		p.paused = true
		p.client.PauseFetchPartitions(p.names())
	}
}

// start handles a message, and then all that are in order behind it.
func (p *partition) start(e *entry) {
	p.work.Add(1)
	p.running.Go(func() {
		defer p.work.Done()
		for e != nil && p.settled(e.record) {
			e = p.done(e)
		}
	})
}

// settled handles a message, again and again, until it has ended. It returns false if the partition ends first.
func (p *partition) settled(r *kgo.Record) bool {
	for delivery := 1; ; delivery++ {
		if !p.takePlace() {
			return false
		}
		d := p.handle(r, delivery)
		<-p.places
		if d.Action != queuesafe.Later {
			return true
		}
		if retry.Wait(p.ctx, max(d.Delay, minDelay)) != nil {
			return false
		}
	}
}

// takePlace waits for a place, and reports whether there is still a reason to.
func (p *partition) takePlace() bool {
	select {
	case p.places <- struct{}{}:
	case <-p.ctx.Done():
		return false
	}
	if p.ctx.Err() != nil { // both were so, and chance has chosen
		<-p.places
		return false
	}
	return true
}

// minDelay keeps a message that comes again at once from going around at full speed.
const minDelay = 10 * time.Millisecond

// handle has a message handled once. One that is given up and cannot be sent to the dead letters comes again.
func (p *partition) handle(r *kgo.Record, delivery int) queuesafe.Disposition {
	m := messageOf(r, delivery)
	d := p.consumer.Handle(context.WithValue(p.ctx, recordKey{}, r), m, p.handler)
	if d.Action != queuesafe.Dead || p.options.DropDead {
		return d
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), callTimeout)
	defer cancel()
	if err := produce(ctx, p.client, p.deadLetter(r, d))[0]; err != nil {
		p.consumer.Tell(ctx, queuesafe.Event{Kind: queuesafe.SettleFailed, Source: m.Source, Delivery: delivery, Err: err})
		return queuesafe.Disposition{Action: queuesafe.Later, Delay: time.Second}
	}
	return d
}

// done marks what can be committed, now that a message has ended, and returns the one that waited for it.
func (p *partition) done(e *entry) (next *entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.ended = true
	var last *kgo.Record
	for len(p.window) > 0 && p.window[0].ended {
		last, p.window = p.window[0].record, p.window[1:]
	}
	if last != nil && !p.over {
		p.client.MarkCommitRecords(last)
	}
	if p.paused && len(p.window) <= p.options.Window/2 {
		p.resume()
	}
	return p.after(e)
}

// after takes a message that has ended out of its lane.
func (p *partition) after(e *entry) (next *entry) {
	if e.order == "" {
		return nil
	}
	lane := p.lanes[e.order][1:]
	if len(lane) == 0 {
		delete(p.lanes, e.order)
		return nil
	}
	p.lanes[e.order] = lane
	return lane[0]
}

func (p *partition) resume() {
	p.paused = false
	p.client.ResumeFetchPartitions(p.names())
}

// drain waits, after stop, until the handlers have ended, or ctx has.
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

// end lets nothing more be committed from here. Handlers that run go on: their keys will end, and the next delivery finds out.
func (p *partition) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	if p.paused {
		p.resume()
	}
}

func (p *partition) names() map[string][]int32 {
	return map[string][]int32{p.at.topic: {p.at.partition}}
}
