package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe"
)

// fillers is the number of goroutines that fill a store, large enough to share syncs.
const fillers = 256

// fill completes the keys from first up to but not including end. It calls keep for each key.
func fill(ctx context.Context, s retrysafe.Store, first, end int64, keep func() retrysafe.Retention) error {
	result := pairResult()
	return fillWith(first, end, func(i int64) error {
		c, err := s.Claim(ctx, fillParams(i))
		if err == nil {
			err = s.Complete(ctx, c.Lease, result, keep())
		}
		return err
	})
}

// fillWith calls f for each number from first up to but not including end, many at a time.
func fillWith(first, end int64, f func(i int64) error) error {
	next := atomic.Int64{}
	next.Store(first)
	var failed firstError
	var wg sync.WaitGroup
	for range fillers {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < end && !failed.failed(); i = next.Add(1) - 1 {
				if err := f(i); err != nil {
					failed.set(fmt.Errorf("fill %d: %w", i, err))
				}
			}
		})
	}
	wg.Wait()
	return failed.err
}

// fillParams returns the parameters that claim the i-th key.
func fillParams(i int64) retrysafe.ClaimParams {
	return retrysafe.ClaimParams{
		Key:         retrysafe.Key{Scope: pairScope, ID: fmt.Sprintf("order-%032d", i)},
		Fingerprint: pairFingerprint,
		Owner:       retrysafe.NewOwner(),
		Lease:       30 * time.Second,
	}
}

// replay claims one of the first n keys that fill has completed, at random, and expects its result.
func replay(ctx context.Context, s retrysafe.Store, n int64) error {
	return replayOf(ctx, s, rand.Int64N(n))
}

// replayOf is replay for the i-th key.
func replayOf(ctx context.Context, s retrysafe.Store, i int64) error {
	c, err := s.Claim(ctx, fillParams(i))
	if err == nil && c.Verdict != retrysafe.Done {
		err = fmt.Errorf("claim of a completed key: %v", c.Verdict)
	}
	return err
}

// residentBytes returns the resident memory of a process.
func residentBytes(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 64)
			return kib * 1024, err
		}
	}
	return 0, fmt.Errorf("process %d: no VmRSS", pid)
}

const mib = 1 << 20
