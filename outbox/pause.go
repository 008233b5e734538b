package outbox

import (
	"context"
	"fmt"
)

// Pause stops the relays with this topic (RelayOptions.Topic), in all processes: they finish what they are sending, and
// take no more. Messages can be saved meanwhile. Pausing a paused topic changes nothing.
func (b *Outbox) Pause(ctx context.Context, topic string) error {
	_, err := b.run(ctx, b.sql.pause, []byte(topic))
	if err != nil {
		return fmt.Errorf("outbox: pause: %w", err)
	}
	return nil
}

// Resume ends a Pause. Relays notice within RelayOptions.Idle. It returns false if the topic was not paused.
func (b *Outbox) Resume(ctx context.Context, topic string) (bool, error) {
	n, err := b.run(ctx, b.sql.resume, []byte(topic))
	if err != nil {
		return false, fmt.Errorf("outbox: resume: %w", err)
	}
	return n > 0, nil
}

// Paused returns the topics that are paused, in alphabetical order.
func (b *Outbox) Paused(ctx context.Context) (topics []string, err error) {
	rows, err := query(ctx, b.db, b.sql.paused)
	if err != nil {
		return nil, fmt.Errorf("outbox: paused: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var topic []byte
		if err := rows.Scan(&topic); err != nil {
			return nil, fmt.Errorf("outbox: paused: %w", err)
		}
		topics = append(topics, string(topic))
	}
	return topics, rows.Err()
}
