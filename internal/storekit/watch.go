package storekit

import (
	"context"
	"slices"
	"sync"

	"github.com/retrysafe/retrysafe"
)

// Watches are the callers of Watch in this process, by key. The zero value has none. It is safe for concurrent use.
type Watches struct {
	mu    sync.Mutex
	byKey map[retrysafe.Digest][]chan<- struct{}
}

// Add returns a channel that receives a value when the key is woken, and a function that ends the watch. The channel
// holds one value until it is read: more would say nothing new, and a caller that does not read delays nothing.
func (w *Watches) Add(d retrysafe.Digest) (changed <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byKey == nil {
		w.byKey = make(map[retrysafe.Digest][]chan<- struct{})
	}
	w.byKey[d] = append(w.byKey[d], c)
	return c, func() { w.remove(d, c) }
}

// Watch is retrysafe.Watcher.Watch of a store that sees each end of an attempt by itself.
func (w *Watches) Watch(ctx context.Context, k retrysafe.Key) (changed <-chan struct{}, stop func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	changed, stop = w.Add(k.Digest())
	return changed, stop, nil
}

func (w *Watches) remove(d retrysafe.Digest, c chan<- struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rest := slices.DeleteFunc(w.byKey[d], func(other chan<- struct{}) bool { return other == c })
	w.byKey[d] = rest
	if len(rest) == 0 {
		delete(w.byKey, d)
	}
}

// Has reports whether the key is watched.
func (w *Watches) Has(d retrysafe.Digest) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.byKey[d]) > 0
}

// Wake wakes the watches of these keys.
func (w *Watches) Wake(digests ...retrysafe.Digest) {
	if len(digests) == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range digests {
		wake(w.byKey[d])
	}
}

// WakeAll wakes every watch. A store calls it when it may have missed that a key has changed.
func (w *Watches) WakeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, channels := range w.byKey {
		wake(channels)
	}
}

func wake(channels []chan<- struct{}) {
	for _, c := range channels {
		select {
		case c <- struct{}{}:
		default: // it holds a value that has not been read yet
		}
	}
}
