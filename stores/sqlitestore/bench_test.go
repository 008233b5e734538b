//go:build linux

package sqlitestore

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
)

const (
	benchRounds = 5
	benchRound  = 500 * time.Millisecond
)

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

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// cpu is the processor time that this process has used.
func cpu(t testing.TB) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
