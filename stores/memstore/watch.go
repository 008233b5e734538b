package memstore

import (
	"context"

	"github.com/retrysafe/retrysafe"
)

// Watch returns a channel that receives a value when the key's attempt completes, releases the key, or ends its
// lease (Extend with 0). stop frees what Watch holds.
func (s *Store) Watch(ctx context.Context, k retrysafe.Key) (changed <-chan struct{}, stop func(), err error) {
	return s.watches.Watch(ctx, k)
}
