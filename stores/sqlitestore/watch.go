package sqlitestore

import (
	"context"

	"github.com/retrysafe/retrysafe"
)

// Watch returns a channel that receives a value when a completion, a release, or an extension by nothing has been
// committed. All writes go through this process, so the file is not asked. stop frees what Watch holds.
func (s *Store) Watch(ctx context.Context, k retrysafe.Key) (changed <-chan struct{}, stop func(), err error) {
	return s.watches.Watch(ctx, k)
}
