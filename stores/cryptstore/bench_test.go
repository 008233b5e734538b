package cryptstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// A claim, a completion and a replay, with the memstore alone and encrypted, in turns, so that a busy machine slows
// both. The metric x is how much longer the encrypted ones took.
func BenchmarkEncryptedAgainstPlain(b *testing.B) {
	for _, size := range []int{200, 4 << 10, 64 << 10} {
		b.Run(fmt.Sprint(size, " bytes"), func(b *testing.B) {
			inner := memstore.New(memstore.Options{MaxBytes: 1 << 40})
			stores := []retrysafe.Store{inner, encrypt(b, inner)}
			var took [2]time.Duration
			body := make([]byte, size)
			b.ResetTimer()
			for i := range b.N {
				for j, s := range stores {
					began := time.Now()
					once(b, s, fmt.Sprint(i, j), body)
					took[j] += time.Since(began)
				}
			}
			b.ReportMetric(float64(took[1])/float64(took[0]), "x")
			b.ReportMetric(float64(took[1]-took[0])/float64(b.N), "ns-more/op")
		})
	}
}

func once(b *testing.B, s retrysafe.Store, id string, body []byte) {
	p := params(id)
	p.Keep = retrysafe.Retention{Replay: time.Second}
	c, err := s.Claim(b.Context(), p)
	if err == nil {
		r := retrysafe.Result{Code: 201, Meta: body[:min(100, len(body))], Body: body}
		err = s.Complete(b.Context(), c.Lease, r, p.Keep)
	}
	if err == nil {
		c, err = s.Claim(b.Context(), p)
	}
	if err != nil || c.Verdict != retrysafe.Done {
		b.Fatal(c.Verdict, err)
	}
}
