package main

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/bench/rawlog"
)

// A pair is a durable claim and a durable completion. The raw log gets the same bytes as a store.

const pairScope = "v1/tenant-17/POST %2Fpayments"

const pairFingerprint = retrysafe.Fingerprint("raw1:47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU")

// pairResult returns the answer of a small JSON API. It must not be modified.
func pairResult() retrysafe.Result {
	return retrysafe.Result{
		Code: 201,
		Meta: []byte("Content-Type: application/json\nLocation: /payments/pay_1NQ9aW2eZvKYlo2C\n"),
		Body: []byte(`{"id":"pay_1NQ9aW2eZvKYlo2C","status":"succeeded","lines":"` + strings.Repeat("x", 190) + `"}`),
	}
}

// storePair claims a fresh key in s and completes it.
func storePair(ctx context.Context, s retrysafe.Store, r retrysafe.Result, keep retrysafe.Retention) error {
	p := freshParams()
	p.Keep = keep
	c, err := s.Claim(ctx, p)
	if err != nil {
		return err
	}
	if c.Verdict != retrysafe.Acquired {
		return fmt.Errorf("claim of a fresh key: %v", c.Verdict)
	}
	return s.Complete(ctx, c.Lease, r, keep)
}

// freshParams returns the parameters that claim a fresh key.
func freshParams() retrysafe.ClaimParams {
	owner := retrysafe.NewOwner()
	return retrysafe.ClaimParams{
		Key:         retrysafe.Key{Scope: pairScope, ID: hex.EncodeToString(owner[:])},
		Fingerprint: pairFingerprint,
		Owner:       owner,
		Lease:       30 * time.Second,
	}
}

// rawPair appends the bytes that a store needs for a claim and a completion.
func rawPair(l *rawlog.Log, r retrysafe.Result) error {
	owner := retrysafe.NewOwner()
	key := retrysafe.Key{Scope: pairScope, ID: hex.EncodeToString(owner[:])}
	digest := key.Digest()
	var buf [1024]byte
	claim := append(append(buf[:0], digest[:]...), owner[:]...)
	claim = append(append(append(claim, key.Scope...), key.ID...), pairFingerprint...)
	claim = binary.LittleEndian.AppendUint64(claim, uint64(time.Now().UnixMicro()))
	if err := l.Append(claim); err != nil {
		return err
	}
	done := append(append(buf[:0], digest[:]...), owner[:]...)
	done = binary.LittleEndian.AppendUint64(done, uint64(time.Now().UnixMicro()))
	return l.Append(append(append(done, r.Meta...), r.Body...))
}

// rate runs f in callers goroutines for about d and returns the number of calls, and the duration.
func rate(callers int, d time.Duration, f func() error) (n int64, took time.Duration, err error) {
	var count atomic.Int64
	var first firstError
	var wg sync.WaitGroup
	began := time.Now()
	for range callers {
		wg.Go(func() {
			for time.Since(began) < d && !first.failed() {
				if err := f(); err != nil {
					first.set(err)
					return
				}
				count.Add(1)
			}
		})
	}
	wg.Wait()
	return count.Load(), time.Since(began), first.err
}

// firstError keeps the first error of many goroutines.
type firstError struct {
	once sync.Once
	some atomic.Bool
	err  error
}

func (f *firstError) set(err error) {
	f.once.Do(func() {
		f.err = err
		f.some.Store(true)
	})
}

func (f *firstError) failed() bool { return f.some.Load() }

// perSecond returns a rate.
func perSecond(n int64, took time.Duration) float64 { return float64(n) / took.Seconds() }
