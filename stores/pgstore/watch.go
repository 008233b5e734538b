package pgstore

import (
	"context"

	"github.com/retrysafe/retrysafe"
)

// Watch returns a channel that receives a value when the key's attempt has ended or given up, as the database tells. It
// returns an error if the database cannot tell: then poll.
func (s *Store) Watch(ctx context.Context, k retrysafe.Key) (changed <-chan struct{}, stop func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	if err := s.listener.listens(ctx); err != nil {
		return nil, nil, err
	}
	changed, stop = s.watches.Add(k.Digest())
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
