package sqlitestore

import (
	"context"
	"encoding/hex"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
)

var benchBody = make([]byte, 300)

// pair claims a key of its own, and completes it.
func pair(ctx context.Context, s *Store) error {
	o := retrysafe.NewOwner()
	c, err := s.Claim(ctx, retrysafe.ClaimParams{
		Key:         retrysafe.Key{Scope: "v1/tenant-17/POST %2Fpayments", ID: hex.EncodeToString(o[:])},
		Fingerprint: "raw1:47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU",
		Owner:       o,
		Lease:       time.Minute,
	})
	if err != nil {
		return err
	}
	return s.Complete(ctx, c.Lease, retrysafe.Result{Code: 201, Meta: benchBody[:80], Body: benchBody},
		retrysafe.Retention{})
}

// fill adds ended records with the IDs fill0, fill1 and so on.
func fill(t testing.TB, s *Store, n int, body []byte) {
	t.Helper()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 256 {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				c, err := s.Claim(context.Background(), params(fmt.Sprint("fill", i)))
				if err == nil {
					err = s.Complete(context.Background(), c.Lease, retrysafe.Result{Body: body}, retrysafe.Retention{})
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}
