package pgstore

import (
	"context"
	"encoding/hex"
	"slices"
	"strings"
	"sync"

	"github.com/retrysafe/retrysafe"
)

// watches are those in this process who want to know when an attempt ends.
type watches struct {
	mu    sync.Mutex
	byKey map[retrysafe.Digest][]chan<- struct{}
}

// Watch returns a channel that receives a value when the key's attempt has ended or given up, as the database tells. It
// returns an error if the database cannot tell: then poll.
func (s *Store) Watch(ctx context.Context, k retrysafe.Key) (<-chan struct{}, func(), error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	if err := s.listener.listens(ctx); err != nil {
		return nil, nil, err
	}
	digest := k.Digest()
	changed := make(chan struct{}, 1) // one value waits; more would say nothing new
	s.watches.add(digest, changed)
	stop := func() { s.watches.remove(digest, changed) }
	if err := s.do(ctx, &question{newTurn(k)}); err != nil {
		stop()
		return nil, nil, err
	}
	return changed, stop, nil
}

// question asks to be told when the attempt that holds the key ends.
type question struct{ turn }

func (q *question) join(b *batch) bool { return b.asks.add(q) }

func (q *question) row() []any { return []any{q.key()} }

func (q *question) settle() bool { return true }

// has reports whether somebody watches the key.
func (w *watches) has(d retrysafe.Digest) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.byKey[d]) > 0
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

// hear wakes those who watch the key that a notification names.
func (w *watches) hear(payload string) {
	b, err := hex.DecodeString(strings.ReplaceAll(payload, "-", ""))
	if err != nil || len(b) != len(retrysafe.Digest{}) {
		return // somebody else's, on our channel
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	wake(w.byKey[retrysafe.Digest(b)])
}

// wakeAll wakes everybody: something may have been missed.
func (w *watches) wakeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, changed := range w.byKey {
		wake(changed)
	}
}

func wake(all []chan<- struct{}) {
	for _, changed := range all {
		select {
		case changed <- struct{}{}:
		default: // a value already waits
		}
	}
}
