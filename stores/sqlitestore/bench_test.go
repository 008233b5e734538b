package sqlitestore

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
)

const (
	benchRounds = 5
	benchRound  = 500 * time.Millisecond
)

var benchBody = make([]byte, 300)

// BenchmarkPairs compares durable claims and completions with a raw log, in turn: the ratio is what is left of the
// limit.
func BenchmarkPairs(b *testing.B) {
	for _, callers := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			s, l := openTest(b), newRawLog(b)
			defer l.close()
			var ours, raw, cost []float64
			for range benchRounds {
				raw = append(raw, perSecond(b, callers, func(context.Context) error { return rawPair(l) }))
				began, before := time.Now(), cpu(b)
				rate := perSecond(b, callers, func(ctx context.Context) error { return pair(ctx, s) })
				ours = append(ours, rate)
				cost = append(cost, float64((cpu(b)-before).Microseconds())/(rate*time.Since(began).Seconds()))
			}
			b.ReportMetric(median(cost), "cpu-µs/pair")
			b.ReportMetric(median(ours), "pairs/s")
			b.ReportMetric(median(raw), "raw/s")
			b.ReportMetric(median(ours)/median(raw), "ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func BenchmarkReplay(b *testing.B) {
	s := openTest(b)
	fill(b, s, 10000, benchBody)
	var n atomic.Int64
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			rate := perSecond(b, callers, func(ctx context.Context) error {
				c, err := s.Claim(ctx, params(fmt.Sprint("fill", n.Add(1)%10000)))
				if err == nil && c.Verdict != retrysafe.Done {
					err = fmt.Errorf("verdict %v", c.Verdict)
				}
				return err
			})
			b.ReportMetric(rate, "replays/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func rawPair(l *rawLog) error {
	var record [600]byte
	if err := l.append(record[:200]); err != nil {
		return err
	}
	return l.append(record[:400])
}

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
	return s.Complete(ctx, c.Lease, retrysafe.Result{Code: 201, Meta: benchBody[:80], Body: benchBody}, retrysafe.Retention{})
}

// perSecond runs f from callers for a round and returns how often it succeeded per second.
func perSecond(t testing.TB, callers int, f func(context.Context) error) float64 {
	ctx := context.Background()
	var n atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for range callers {
		wg.Go(func() {
			for time.Since(start) < benchRound {
				if err := f(ctx); err != nil {
					t.Error(err)
					return
				}
				n.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(n.Load()) / time.Since(start).Seconds()
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

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}
