package memstore

import (
	"context"
	"slices"

	"github.com/retrysafe/retrysafe"
)

// Watch returns a channel that receives a value when the key's attempt completes, releases the key, or extends its
// lease by nothing. stop frees what Watch holds.
func (s *Store) Watch(ctx context.Context, k retrysafe.Key) (<-chan struct{}, func(), error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	digest := k.Digest()
	changed := make(chan struct{}, 1) // one value waits; more would say nothing new
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watches[digest] = append(s.watches[digest], changed)
	return changed, func() { s.unwatch(digest, changed) }, nil
}

func (s *Store) unwatch(d retrysafe.Digest, changed chan<- struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rest := slices.DeleteFunc(s.watches[d], func(c chan<- struct{}) bool { return c == changed })
	s.watches[d] = rest
	if len(rest) == 0 {
		delete(s.watches, d)
	}
}

func (s *Store) wake(d retrysafe.Digest) {
	for _, changed := range s.watches[d] {
		select {
		case changed <- struct{}{}:
		default: // a value already waits
		}
	}
}
