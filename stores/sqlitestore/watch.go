package sqlitestore

import (
	"context"
	"slices"
	"sync"

	"github.com/retrysafe/retrysafe"
)

// watches wakes those who wait for a key. All writes go through this process, so it needs no help of the file.
type watches struct {
	mu    sync.Mutex
	byKey map[retrysafe.Digest][]chan<- struct{}
}

// Watch returns a channel that receives a value when a completion, a release, or an extension by nothing has been
// committed. stop frees what Watch holds.
func (s *Store) Watch(ctx context.Context, k retrysafe.Key) (<-chan struct{}, func(), error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	digest := k.Digest()
	changed := make(chan struct{}, 1) // one value waits; more would say nothing new
	s.watches.add(digest, changed)
	return changed, func() { s.watches.remove(digest, changed) }, nil
}

func (w *watches) add(d retrysafe.Digest, changed chan<- struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byKey == nil {
		w.byKey = make(map[retrysafe.Digest][]chan<- struct{})
	}
	w.byKey[d] = append(w.byKey[d], changed)
}

func (w *watches) remove(d retrysafe.Digest, changed chan<- struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rest := slices.DeleteFunc(w.byKey[d], func(c chan<- struct{}) bool { return c == changed })
	w.byKey[d] = rest
	if len(rest) == 0 {
		delete(w.byKey, d)
	}
}

// wake tells those who watch one of the keys.
func (w *watches) wake(digests []retrysafe.Digest) {
	if len(digests) == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.byKey) == 0 {
		return
	}
	for _, d := range digests {
		for _, changed := range w.byKey[d] {
			select {
			case changed <- struct{}{}:
			default: // a value already waits
			}
		}
	}
}

// wake has those who watch the key told after the commit.
func (s *session) wake(d retrysafe.Digest) { s.changed = append(s.changed, d) }
