package natsstore

import (
	"sync"
	"time"

	"github.com/retrysafe/retrysafe"
)

const (
	// maxLeases bounds the memory for entries whose lease this process has, or has lost without noticing.
	maxLeases = 10_000
	// reign is for how long a leader that was cut off from the others may believe that it still leads: twice
	// nats-server's ten seconds.
	reign = 20 * time.Second
)

// leases remembers the entries that this process has written last, of keys whose lease it has. They save the read
// before the next write under the lease; that write is conditional, so that an entry that has changed since costs a
// round trip and no more. They also unmask a server that answers with an older version.
type leases struct {
	mu    sync.Mutex
	byKey map[retrysafe.Digest]lease
}

type lease struct {
	entry *entry
	since time.Time
	// exact says that the end of the lease is known. Otherwise the write has set it, relative to the moment at which
	// the server stored it: a write that repeats it would move it, and make a lease run again that was over.
	exact bool
}

// keep remembers e, which was just written, if it is pending, and forgets the key otherwise.
func (l *leases) keep(d retrysafe.Digest, e *entry, r reading) {
	now := time.Now()
	kept := *e
	// When the server stored it is known only roughly. The lease is taken to end late.
	kept.settle(r.high(now))
	kept.at, kept.endsHere = r.low(now), e.endsFromNow
	l.mu.Lock()
	defer l.mu.Unlock()
	if kept.over(kept.at).lease || kept.State != retrysafe.Pending {
		delete(l.byKey, d)
		return
	}
	if l.byKey == nil {
		l.byKey = map[retrysafe.Digest]lease{}
	}
	for other := range l.byKey {
		if len(l.byKey) < maxLeases {
			break
		}
		delete(l.byKey, other)
	}
	l.byKey[d] = lease{&kept, now, !e.endsFromNow}
}

// get returns the entry that was written last under this lease, or nil. With exact, for a write that leaves the end of
// the lease as it is, it returns one only if that end is known.
func (l *leases) get(k retrysafe.Lease, exact bool) *entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.byKey[k.Key.Digest()]
	if known.entry == nil || !known.entry.PendingUnder(k) || exact && !known.exact {
		return nil
	}
	return known.entry
}

func (l *leases) drop(d retrysafe.Digest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.byKey, d)
}

// check returns errOld if a server has answered with an older version than this process has written lately. rev is 0 if
// it has none. From a single server that means that a person has deleted the entry.
func (l *leases) check(d retrysafe.Digest, rev uint64, replicated bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known, ok := l.byKey[d]; ok && (rev > 0 || replicated) && rev < known.entry.rev && time.Since(known.since) < reign {
		return errOld
	}
	return nil
}
