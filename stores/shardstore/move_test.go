package shardstore

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// losing loses the answer to the first claim.
type losing struct {
	*memstore.Store
	lost bool
}

func (l *losing) Claim(ctx context.Context, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
	c, err := l.Store.Claim(ctx, p)
	if !l.lost {
		l.lost = true
		return retrysafe.Claim{}, errors.Join(errLost, err)
	}
	return c, err
}

// A claim whose first answer came late, or was lost, gets the key when it is repeated, unless the clocks really differ.
// Seen to fail with claimBoth returning the first errApart.
func TestLateAnswerIsNotBlamedOnClocks(t *testing.T) {
	for name, c := range map[string]struct {
		ahead time.Duration // the new store's clock
		want  error
	}{"the clocks agree": {0, nil}, "the clocks differ": {5 * time.Second, errApart}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start, ahead := time.Now(), time.Duration(0)
				clock := func() time.Duration { return time.Since(start) + ahead }
				old, next := &losing{Store: memstore.New(memstore.Options{})}, memstore.New(memstore.Options{Clock: clock})
				ahead = c.ahead
				s, err := New([]Shard{{"old", old}}, Options{Move: &Move{To: []Shard{{"new", next}}, Stage: OldDecides}})
				if err != nil {
					t.Fatal(err)
				}
				p := retrysafe.ClaimParams{
					Key: retrysafe.Key{ID: "k"}, Owner: retrysafe.NewOwner(), Lease: time.Minute,
					Keep: retrysafe.Retention{Key: time.Hour},
				}
				if _, err := s.Claim(t.Context(), p); !errors.Is(err, errLost) {
					t.Fatalf("got %v, want that the answer was lost", err)
				}
				time.Sleep(3 * time.Second)
				got, err := s.Claim(t.Context(), p)
				if !errors.Is(err, c.want) || err == nil && got.Verdict != retrysafe.Acquired {
					t.Errorf("got %v, %v; want %v", got.Verdict, err, c.want)
				}
			})
		})
	}
}
