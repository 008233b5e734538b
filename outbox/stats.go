package outbox

import (
	"context"
	"fmt"
	"time"
)

// Stats describes an outbox at one moment.
type Stats struct {
	// Pending is the number of messages that are not sent yet. It includes Due, InFlight and the messages that wait
	// for a retry.
	Pending int
	// Due is the number of messages that a relay could take now, or that wait only for an earlier message of their
	// aggregate.
	Due int
	// InFlight is the number of messages that a relay has taken and whose lease still runs.
	InFlight int
	// OldestAge is the age of the oldest pending message, which shows how far the relays lag behind. It is 0 if none
	// is pending.
	OldestAge time.Duration
	// MostTries is the highest number of tries of a pending message.
	MostTries int
	// Dead is the number of dead letters.
	Dead int
}

// Stats counts the messages by state. It reads pending and dead messages, not those that were sent.
func (b *Outbox) Stats(ctx context.Context) (s Stats, err error) {
	var oldest int64
	err = queryRow(ctx, b.db, b.sql.stats).Scan(&s.Pending, &s.Due, &s.InFlight, &oldest, &s.MostTries, &s.Dead)
	if err != nil {
		return Stats{}, fmt.Errorf("outbox: stats: %w", err)
	}
	s.OldestAge = fromMicros(oldest)
	return s, nil
}

// StatsByTopic counts as Stats does, for each topic that has pending messages or dead letters.
func (b *Outbox) StatsByTopic(ctx context.Context) (map[string]Stats, error) {
	rows, err := query(ctx, b.db, b.sql.topics)
	if err != nil {
		return nil, fmt.Errorf("outbox: stats: %w", err)
	}
	defer rows.Close()
	all := map[string]Stats{}
	for rows.Next() {
		var topic []byte
		var s Stats
		var oldest int64
		if err := rows.Scan(&topic, &s.Pending, &s.Due, &s.InFlight, &oldest, &s.MostTries, &s.Dead); err != nil {
			return nil, fmt.Errorf("outbox: stats: %w", err)
		}
		known := all[string(topic)] // the two rows of a topic, in which the other half is 0
		s.Pending, s.Due, s.InFlight = s.Pending+known.Pending, s.Due+known.Due, s.InFlight+known.InFlight
		s.OldestAge, s.MostTries = fromMicros(oldest)+known.OldestAge, s.MostTries+known.MostTries
		s.Dead += known.Dead
		all[string(topic)] = s
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("outbox: stats: %w", err)
	}
	return all, nil
}

// Lag returns for how long the message of a topic has waited that waits longest for its first try. It leaves out messages
// whose time has not come, and those that wait for an earlier one of their aggregate. A message of which a try has failed
// does not count, so that it does not make the relays look late, unless its receiver could not be reached: see Untried.
// Lag reads all pending messages of the topic: call it once in a while.
func (b *Outbox) Lag(ctx context.Context, topic string) (time.Duration, error) {
	var lag int64
	if err := queryRow(ctx, b.db, b.sql.lag, []byte(topic)).Scan(&lag); err != nil {
		return 0, fmt.Errorf("outbox: lag: %w", err)
	}
	return max(fromMicros(lag), 0), nil
}

// sweepPiece is the number of messages that one sweep statement deletes at most.
const sweepPiece = 1000

// Sweep deletes up to 1,000 messages that were sent longer than retention ago, and returns how many it deleted. To
// delete all of them, call it until it returns 0. A Relay sweeps by itself.
func (b *Outbox) Sweep(ctx context.Context, retention time.Duration) (int, error) {
	n, err := b.run(ctx, b.sql.sweep, retention.Microseconds(), sweepPiece)
	if err != nil {
		return 0, fmt.Errorf("outbox: sweep: %w", err)
	}
	return n, nil
}
