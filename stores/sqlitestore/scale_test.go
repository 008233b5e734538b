//go:build linux

package sqlitestore

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkScale fills a store with a million records (RECORDS sets another number), and tells how long it takes to
// open it again after a crash, how much memory the process has, how fast it replays, and how sweeping all of it goes
// beside callers.
func BenchmarkScale(b *testing.B) {
	n := 1_000_000
	if set := os.Getenv("RECORDS"); set != "" {
		if _, err := fmt.Sscan(set, &n); err != nil {
			b.Fatal(err)
		}
	}
	s := openTest(b)
	fill(b, s, n, benchBody)
	b.ReportMetric(float64(resident(b)), "RSS-MiB")
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	start := time.Now()
	s = openAt(b, s.path, s.clock.aged)
	b.ReportMetric(float64(time.Since(start).Microseconds())/1000, "reopen-ms")

	const callers = 16
	idle := latency(b, s, callers, 2*time.Second, nil)
	age(s, 25*time.Hour)
	swept, done := 0, make(chan struct{})
	start = time.Now()
	go func() {
		defer close(done)
		for {
			k, err := s.Sweep(context.Background(), 10000)
			if swept += k; err != nil || k < 10000 {
				return
			}
		}
	}()
	busy := latency(b, s, callers, 0, done)
	b.ReportMetric(float64(swept)/time.Since(start).Seconds(), "swept/s")
	b.ReportMetric(float64(idle.Microseconds())/1000, "idle-p99-ms")
	b.ReportMetric(float64(busy.Microseconds())/1000, "sweeping-p99-ms")
	b.ReportMetric(0, "ns/op")
}

// latency runs pairs at a steady pace, a hundred per second and caller, and returns the 99th percentile of a call.
func latency(b *testing.B, s *Store, callers int, d time.Duration, done <-chan struct{}) time.Duration {
	var mu sync.Mutex
	var took []time.Duration
	var stop atomic.Bool
	if done != nil {
		go func() { <-done; stop.Store(true) }()
	} else {
		time.AfterFunc(d, func() { stop.Store(true) })
	}
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			pace := time.NewTicker(10 * time.Millisecond)
			defer pace.Stop()
			for ; !stop.Load(); <-pace.C {
				start := time.Now()
				if err := pair(context.Background(), s); err != nil {
					b.Error(err)
					return
				}
				t := time.Since(start)
				mu.Lock()
				took = append(took, t/2)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	slices.Sort(took)
	return took[len(took)*99/100]
}

// resident is the memory of this process in MiB.
func resident(b *testing.B) (kib int64) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			if _, err := fmt.Sscan(rest, &kib); err != nil {
				b.Fatal(err)
			}
		}
	}
	return kib / 1024
}
