// Package sinktest checks that a sink does what outbox.Sink promises. Run it on sinks of your own.
package sinktest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/outbox"
)

const (
	batchSize = 100
	// patience is how long a message that counts as sent may take to be seen at the receiver.
	patience = time.Minute
	// late is how long Send may take to return after its context has ended. A relay has a quarter of its lease left to
	// save the results.
	late = 15 * time.Second
)

// Run checks a sink. newMessage returns a message that the receiver accepts, without a Key. receive takes the messages
// that have arrived at the receiver and returns their keys; it may return before all have arrived, and is called again.
func Run(t *testing.T, s outbox.Sink, newMessage func() outbox.Message, receive func() (keys []string)) {
	r := &receiver{receive: receive, has: map[string]bool{}}
	batch := func() (all []outbox.Delivery) {
		for range batchSize {
			m := newMessage()
			m.Key = outbox.NewKey()
			all = append(all, outbox.Delivery{Message: m, Try: 1})
		}
		return all
	}
	began := time.Now()
	for i, err := range r.send(t.Context(), t, s, batch()) {
		if err != nil {
			t.Fatalf("message %d of a batch with time enough: %v", i, err)
		}
	}
	took := time.Since(began)

	t.Run("ended", func(t *testing.T) {
		t.Log("with a context that has ended, only what was sent counts as sent")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r.send(ctx, t, s, batch())
	})
	for eighth := range 8 {
		t.Run(fmt.Sprintf("ends after %d eighths", eighth), func(t *testing.T) {
			t.Log("with a context that ends in the middle, only what was sent counts as sent")
			ctx, cancel := context.WithTimeout(t.Context(), took*time.Duration(eighth)/8)
			defer cancel()
			r.send(ctx, t, s, batch())
		})
	}
}

type receiver struct {
	receive func() []string
	has     map[string]bool
}

// send sends a batch, and checks that there is an answer for each message and that each one that counts as sent
// arrives.
func (r *receiver) send(ctx context.Context, t *testing.T, s outbox.Sink, batch []outbox.Delivery) []error {
	t.Helper()
	answers := s.Send(ctx, batch)
	if deadline, ok := ctx.Deadline(); ok && time.Since(deadline) > late {
		t.Errorf("Send returned %v after its context had ended", time.Since(deadline))
	}
	if len(answers) != len(batch) {
		t.Fatalf("%d answers for %d messages", len(answers), len(batch))
	}
	missing := func() (n int) {
		for i, err := range answers {
			if err == nil && !r.has[batch[i].Key] {
				n++
			}
		}
		return n
	}
	for began := time.Now(); missing() > 0; {
		if time.Since(began) > patience {
			t.Fatalf("%d of %d messages count as sent and have not arrived", missing(), len(batch))
		}
		for _, key := range r.receive() {
			r.has[key] = true
		}
	}
	return answers
}
