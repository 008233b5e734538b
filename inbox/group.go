package inbox

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/outbox"
)

// group saves the requests of concurrent callers together: while some transactions are being written, those that come wait
// for the next. So a sync of the disk is shared by many.
type group struct {
	box *outbox.Outbox

	mu      sync.Mutex
	waiting []*entry
	writers int
}

// entry is a request on its way into the table.
type entry struct {
	outbox.Entry
	status outbox.Status
	err    error
	done   chan struct{}
}

const (
	// maxWriters is how many transactions are written at once: one is prepared while another waits for the disk. Of a
	// database that writes one at a time, the others would hold requests which the first could have taken along.
	maxWriters = 4
	// maxTogether is how many requests, and maxBytesTogether how many bytes of them, are saved in one transaction.
	maxTogether, maxBytesTogether = 256, 8 << 20
	// saveTime bounds what is saved together, and then all tries of its parts.
	saveTime = 10 * time.Second
)

// put saves a message. It returns when that is over, whatever becomes of the client, because the body belongs to the
// caller.
func (g *group) put(m outbox.Entry) (outbox.Status, error) {
	e := &entry{Entry: m, done: make(chan struct{})}
	g.mu.Lock()
	g.waiting = append(g.waiting, e)
	if g.writers < min(maxWriters, g.box.MaxWriters()) {
		g.writers++
		go g.write()
	}
	g.mu.Unlock()
	<-e.done
	return e.status, e.err
}

// write saves what waits, until nothing does.
func (g *group) write() {
	for {
		runtime.Gosched() // callers that can go on now come along: those that were just answered come again
		all := g.next()
		if len(all) == 0 {
			return
		}
		g.save(all)
	}
}

// next returns what is saved together; nothing if nothing waits, and then write has ended.
func (g *group) next() []*entry {
	g.mu.Lock()
	defer g.mu.Unlock()
	n, bytes := 0, 0
	for n < len(g.waiting) && n < maxTogether && (n == 0 || bytes+len(g.waiting[n].Body) <= maxBytesTogether) {
		bytes += len(g.waiting[n].Body)
		n++
	}
	all := g.waiting[:n:n]
	g.waiting = g.waiting[n:]
	if len(g.waiting) == 0 {
		g.waiting = nil // which would keep the bodies of a burst in memory until so many requests have come again
	}
	if n == 0 {
		g.writers--
	}
	return all
}

// save saves requests together. If that fails, each half of them is tried alone, and so on, so that one which the database
// refuses does not take the others with it. A database that is read-only refuses all.
func (g *group) save(all []*entry) {
	ctx, stop := context.WithTimeout(context.Background(), saveTime)
	defer stop()
	if err := g.saveTogether(ctx, all); err == nil || len(all) == 1 || errors.Is(err, outbox.ErrReadOnly) {
		end(all, err)
		return
	}
	parts, stop := context.WithTimeout(context.Background(), saveTime)
	defer stop()
	g.saveHalves(parts, all)
}

func (g *group) saveHalves(ctx context.Context, all []*entry) {
	for _, half := range [][]*entry{all[:len(all)/2], all[len(all)/2:]} {
		if err := g.saveTogether(ctx, half); err == nil || len(half) == 1 {
			end(half, err)
			continue
		}
		g.saveHalves(ctx, half)
	}
}

// end gives entries their result.
func end(all []*entry, err error) {
	for _, e := range all {
		e.err = err
		close(e.done)
	}
}

func (g *group) saveTogether(ctx context.Context, all []*entry) error {
	entries := make([]outbox.Entry, len(all))
	for i, e := range all {
		entries[i] = e.Entry
	}
	statuses, err := g.box.Put(ctx, entries...)
	for i, s := range statuses {
		all[i].status = s
	}
	return err
}
