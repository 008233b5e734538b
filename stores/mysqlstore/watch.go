package mysqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Watch returns a channel that receives a value when the key's attempt has ended or given up, in whatever process. stop
// frees what Watch holds.
//
// An attempt that ends in this Store wakes its waiters at once. For those of other processes the Store asks the
// server, twice a second as long as there are waiters, with one statement for all keys that are watched.
func (s *Store) Watch(ctx context.Context, k retrysafe.Key) (changed <-chan struct{}, stop func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	d := k.Digest()
	if err := s.poller.begin(ctx, d); err != nil {
		return nil, nil, fmt.Errorf("watch %s: %w", k, err)
	}
	changed, remove := s.watches.Add(d)
	return changed, func() {
		remove()
		s.poller.end(d)
	}, nil
}

const (
	// pollEvery is the time between two looks at the keys that are watched.
	pollEvery = 500 * time.Millisecond
	// pollKeys is how many keys one statement looks at.
	pollKeys = 5000
)

// mark is what tells whether an attempt has ended or given up since the last look. The zero value is a key without a
// row.
type mark struct {
	fence     int64
	state     retrysafe.State
	abandoned bool
}

// poller looks at the keys that are watched. Its goroutine runs as long as there are any.
type poller struct {
	store *Store
	ctx   context.Context
	stop  context.CancelFunc

	mu      sync.Mutex
	watched map[retrysafe.Digest]*watched
	running bool
	ended   sync.WaitGroup
}

// watched is a key with so many watches.
type watched struct {
	watches int
	seen    mark
}

func newPoller(s *Store) *poller {
	p := &poller{store: s, watched: make(map[retrysafe.Digest]*watched)}
	p.ctx, p.stop = context.WithCancel(context.Background())
	return p
}

// begin looks at the key for the first time, so that no later change is missed.
func (p *poller) begin(ctx context.Context, d retrysafe.Digest) error {
	p.mu.Lock()
	if p.ctx.Err() != nil {
		p.mu.Unlock()
		return ErrClosed
	}
	p.ended.Add(1) // close waits for this look
	p.mu.Unlock()
	defer p.ended.Done()
	now, err := p.store.look(ctx, d)
	if err != nil {
		return explain(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		return ErrClosed
	}
	if w := p.watched[d]; w != nil {
		w.watches++
		return nil // what was seen first is older, so at worst the new watch is woken without cause
	}
	p.watched[d] = &watched{watches: 1, seen: now[d]}
	if !p.running {
		p.running = true
		p.ended.Go(p.run)
	}
	return nil
}

func (p *poller) end(d retrysafe.Digest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.watched[d]
	if w.watches--; w.watches == 0 {
		delete(p.watched, d)
	}
}

func (p *poller) close() {
	p.mu.Lock()
	p.stop()
	p.mu.Unlock()
	p.ended.Wait()
}

// run polls until no key is watched, or until the Store is closed.
func (p *poller) run() {
	every := time.NewTicker(pollEvery)
	defer every.Stop()
	for {
		select {
		case <-every.C:
		case <-p.ctx.Done():
			return
		}
		keys := p.keys()
		if len(keys) == 0 {
			return
		}
		for part := range slices.Chunk(keys, pollKeys) {
			p.poll(part)
		}
	}
}

// keys are those that are watched. Without any, the goroutine ends.
func (p *poller) keys() (keys []retrysafe.Digest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = len(p.watched) > 0
	return slices.Collect(maps.Keys(p.watched))
}

// poll wakes the waiters of keys whose attempt is not as it was. After an error it wakes them all, and they claim.
func (p *poller) poll(keys []retrysafe.Digest) {
	ctx, cancel := context.WithTimeout(p.ctx, p.store.options.Timeout)
	defer cancel()
	now, err := p.store.look(ctx, keys...)
	if err != nil {
		p.store.watches.WakeAll()
		return
	}
	p.store.watches.Wake(p.changed(keys, now)...)
}

// changed compares what is there with what was seen before.
func (p *poller) changed(keys []retrysafe.Digest, now map[retrysafe.Digest]mark) (changed []retrysafe.Digest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range keys {
		if w := p.watched[d]; w != nil && now[d] != w.seen {
			w.seen = now[d]
			changed = append(changed, d)
		}
	}
	return changed
}

// look reads the marks of keys that have a row.
func (s *Store) look(ctx context.Context, digests ...retrysafe.Digest) (map[retrysafe.Digest]mark, error) {
	var keys rows
	for _, d := range digests {
		keys = append(keys, []any{d[:]})
	}
	marks := make(map[retrysafe.Digest]mark)
	err := s.read(ctx, func(c *conn) error {
		return s.query(ctx, c, s.sql.look, keys, func(row *sql.Rows) error {
			var k sql.RawBytes
			var m mark
			var state uint8
			if err := row.Scan(&k, &m.fence, &state, &m.abandoned); err != nil {
				return err
			}
			m.state = retrysafe.State(state)
			marks[retrysafe.Digest(k)] = m
			return nil
		})
	})
	return marks, err
}
