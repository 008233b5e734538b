package outbox

import (
	"context"
	"fmt"
	"time"
)

// Stats is what there is in an outbox at one moment.
type Stats struct {
	// Pending messages are not sent yet: Due and InFlight are among them, the others wait for their next try.
	Pending int
	// Due could be taken now, or are behind one of the same aggregate that is not sent.
	Due int
	// InFlight are taken by a relay whose lease runs.
	InFlight int
	// OldestAge is that of the oldest pending message: how far the relays lag behind. 0 if there is none.
	OldestAge time.Duration
	// MostTries of a pending message.
	MostTries int
	// Dead letters.
	Dead int
}

// Stats counts. It reads the pending messages, not those that are sent.
func (b *Outbox) Stats(ctx context.Context) (s Stats, err error) {
	var oldest int64
	err = b.db.QueryRowContext(ctx, b.sql.stats).Scan(&s.Pending, &s.Due, &s.InFlight, &oldest, &s.MostTries, &s.Dead)
	if err != nil {
		return Stats{}, fmt.Errorf("outbox: stats: %w", err)
	}
	s.OldestAge = fromMicros(oldest)
	return s, nil
}

// sweepPiece is how many messages one statement deletes at most.
const sweepPiece = 1000

// Sweep deletes messages that were sent longer than retention ago: a bounded piece of them. It returns how many; call it again until
// it is none. A Relay does so by itself.
func (b *Outbox) Sweep(ctx context.Context, retention time.Duration) (int, error) {
	n, err := b.run(ctx, b.sql.sweep, retention.Microseconds(), sweepPiece)
	if err != nil {
		return 0, fmt.Errorf("outbox: sweep: %w", err)
	}
	return n, nil
}
