package retrysafe_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// leavingOut is an Inspector that cannot read one of its records.
type leavingOut struct{ retrysafe.Inspector }

func (l leavingOut) List(ctx context.Context, p retrysafe.ListParams) ([]retrysafe.Record, error) {
	page, err := l.Inspector.List(ctx, p)
	return page, errors.Join(err, fmt.Errorf("record 7 of version 2: %w", retrysafe.ErrUnreadable))
}

// A record that cannot be read is told at the end of a walk, and does not end it.
//
// Seen to fail with the case of ErrUnreadable taken out of Walk: it visited none.
func TestWalkBesideARecordThatCannotBeRead(t *testing.T) {
	const n = 1500 // more than a page
	s := memstore.New(memstore.Options{})
	for i := range n {
		p := retrysafe.ClaimParams{
			Key: retrysafe.Key{Scope: "a", ID: fmt.Sprint(i)}, Owner: retrysafe.NewOwner(), Lease: time.Minute,
			Keep: retrysafe.Retention{Key: time.Hour},
		}
		if _, err := s.Claim(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	visited := 0
	err := retrysafe.Walk(t.Context(), leavingOut{s}, func(retrysafe.Record) error {
		visited++
		return nil
	})
	if visited != n || !errors.Is(err, retrysafe.ErrUnreadable) {
		t.Errorf("visited %d of %d records, %v; want all and ErrUnreadable", visited, n, err)
	}
}
