package natsstore

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/retrysafe/retrysafe"
)

// behind is a server that was cut off: it answers the next reads with the version that it has.
type behind struct {
	jetstream.Stream
	mu   sync.Mutex
	has  *jetstream.RawStreamMsg
	left int
}

func (b *behind) GetLastMsgForSubject(ctx context.Context, subject string) (*jetstream.RawStreamMsg, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left > 0 {
		b.left--
		return b.has, nil
	}
	return b.Stream.GetLastMsgForSubject(ctx, subject)
}

// A server that answers with a version older than one that this process has written is asked again, so that an attempt
// is not told that it has lost its lease. Seen to fail with check returning nil, and with update dropping what it knows
// of the key after each failure.
func TestVersionOlderThanOursIsNotBelieved(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	other, err := s.Claim(t.Context(), params("k"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Release(t.Context(), other.Lease); err != nil {
		t.Fatal(err)
	}
	old, err := s.reads.GetLastMsgForSubject(t.Context(), s.recordSubject(other.Lease.Key.Digest()))
	if err != nil {
		t.Fatal(err)
	}
	mine, err := s.Claim(t.Context(), params("k"))
	if err != nil {
		t.Fatal(err)
	}
	cut := &behind{Stream: s.reads, has: old, left: 3}
	s.reads = cut
	if err := s.Checkpoint(t.Context(), mine.Lease, retrysafe.StepResult{Name: "a"}); err != nil {
		t.Error(err)
	}
	if cut.left != 0 {
		t.Errorf("the server was not asked: %d", cut.left)
	}
	// A record that a person has deleted is no version at all.
	if err := s.reads.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c, err := s.Claim(t.Context(), params("k")); err != nil || c.Verdict != retrysafe.Acquired {
		t.Errorf("after its deletion: %v, %v", c.Verdict, err)
	}
	if err := s.Extend(t.Context(), mine.Lease, time.Hour); err == nil {
		t.Error("the lease of before is still good")
	}
}
