package pgstore

import (
	"context"

	"github.com/retrysafe/retrysafe"
)

// Watch returns a channel that receives a value when the key's attempt has ended or given up, in whatever process. It
// returns an error if notifications of the database do not arrive: then poll. stop frees what Watch holds.
func (s *Store) Watch(ctx context.Context, k retrysafe.Key) (changed <-chan struct{}, stop func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	if err := s.listener.listens(ctx); err != nil {
		return nil, nil, err
	}
	changed, stop = s.watches.Add(k.Digest())
	if err := s.batcher.Do(ctx, &watching{newCall(k, stepWatch)}); err != nil {
		stop()
		return nil, nil, err
	}
	return changed, stop, nil
}

// watching is the step of a Watch: it marks the row of the key, if an attempt has it.
type watching struct{ call }

func (w *watching) Next() (more bool) { return false }
