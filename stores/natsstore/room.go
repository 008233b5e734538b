package natsstore

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/retrysafe/retrysafe"
)

// reservedPart of a bucket with a limit is kept for keys that were accepted: one part of so many. New keys are refused
// before it is touched. Otherwise an attempt could not save what it has done in a full bucket: not even its own entry
// may be replaced there.
const reservedPart = 8

// room is the space that is left for new keys.
type room struct {
	left    atomic.Int64 // what the server said last, less what this process has written since
	reserve atomic.Int64 // 0: the bucket has no limit
}

// set takes what the server says. It is called in turn.
func (r *room) set(info *jetstream.StreamInfo) {
	limit := info.Config.MaxBytes
	if limit <= 0 {
		r.reserve.Store(0)
		r.left.Store(math.MaxInt64)
		return
	}
	r.reserve.Store(limit / reservedPart)
	r.left.Store(limit - limit/reservedPart - int64(info.State.Bytes))
}

// checkRoom returns retrysafe.ErrStoreFull if only the reserve is left. Near that it asks the server: other processes
// write too.
func (s *Store) checkRoom(ctx context.Context) error {
	r := &s.clock.room
	if r.left.Load() > r.reserve.Load() {
		return nil
	}
	if _, err := s.clock.ask(ctx); err != nil {
		return err
	}
	if r.left.Load() > 0 {
		return nil
	}
	return fmt.Errorf("%w: the last %d bytes of bucket %s are kept for keys that were accepted; raise max_bytes, or "+
		"shorten the Retention", retrysafe.ErrStoreFull, r.reserve.Load(), s.options.Bucket)
}
