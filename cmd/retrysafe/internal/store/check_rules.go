package store

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe"
)

// rule is a sentence of the Store contract, and the code that tests it.
type rule struct {
	sentence string
	holds    func(ctx context.Context, s retrysafe.Store) error
}

// rules are in the order in which they run: a store that fails an early one fails later ones too.
var rules = []rule{
	{"a new key is acquired by one attempt, which may repeat its claim", claimIsRepeatable},
	{"another attempt is told that the key is in flight", othersWait},
	{"the answer comes back byte for byte, and a second completion does not change it", answersAreExact},
	{"a released key is free, and its fence grows", releaseFrees},
	{"the steps of an attempt are handed to the next one", stepsSurvive},
	{"after a take-over the old lease can change nothing", zombiesAreRefused},
	{"a lease runs out by the store's clock, and not before", leasesRunOut},
	{"a key is free once its retention has passed", retentionEnds},
	{"of 32 claims at once one is acquired, for 30 keys", oneWins},
}

// What records of this command are kept for: the shortest time in which nothing here can run late.
const (
	checkScope = "retrysafe check"
	checkLease = time.Minute
)

var keep = retrysafe.Retention{Replay: time.Minute, Key: time.Minute, Audit: time.Minute}

// params asks for a key of its own, by an owner of its own.
func params() retrysafe.ClaimParams {
	return retrysafe.ClaimParams{
		Key:         retrysafe.Key{Scope: checkScope, ID: retrysafe.NewOwner().String()},
		Fingerprint: "raw1:check", Owner: retrysafe.NewOwner(), Lease: checkLease, Keep: keep,
	}
}

// byAnother asks for the same key for another attempt at the same request.
func byAnother(p retrysafe.ClaimParams) retrysafe.ClaimParams {
	p.Owner = retrysafe.NewOwner()
	return p
}

// expect claims, and returns an error unless the verdict is what is wanted.
func expect(ctx context.Context, s retrysafe.Store, p retrysafe.ClaimParams, want retrysafe.Verdict) (retrysafe.Claim, error) {
	c, err := s.Claim(ctx, p)
	if err == nil && c.Verdict != want {
		err = fmt.Errorf("a claim is told %q instead of %q", c.Verdict, want)
	}
	return c, err
}

// take acquires a key of its own.
func take(ctx context.Context, s retrysafe.Store) (retrysafe.ClaimParams, retrysafe.Lease, error) {
	p := params()
	c, err := expect(ctx, s, p, retrysafe.Acquired)
	return p, c.Lease, err
}

func claimIsRepeatable(ctx context.Context, s retrysafe.Store) error {
	p, first, err := take(ctx, s)
	if err != nil {
		return err
	}
	again, err := expect(ctx, s, p, retrysafe.Acquired)
	if err == nil && again.Lease != first {
		err = errors.New("the repeated claim gets another lease")
	}
	return err
}

func othersWait(ctx context.Context, s retrysafe.Store) error {
	p, _, err := take(ctx, s)
	if err != nil {
		return err
	}
	_, err = expect(ctx, s, byAnother(p), retrysafe.InFlight)
	return err
}

// answerBytes has every byte, and is larger than a packet.
func answerBytes() []byte {
	b := make([]byte, 64<<10)
	for i := range b {
		b[i] = byte(i + i>>8)
	}
	return b
}

func answersAreExact(ctx context.Context, s retrysafe.Store) error {
	p, l, err := take(ctx, s)
	if err != nil {
		return err
	}
	want := retrysafe.Result{Code: 201, Meta: []byte{0, 255, '\n'}, Body: answerBytes()}
	err = errors.Join(
		s.Complete(ctx, l, want, keep),
		s.Complete(ctx, l, retrysafe.Result{Code: 500, Body: []byte("another")}, keep))
	if err != nil {
		return err
	}
	c, err := expect(ctx, s, byAnother(p), retrysafe.Done)
	got := c.Record.Result
	switch {
	case err != nil:
		return err
	case got.Code != want.Code || !bytes.Equal(got.Meta, want.Meta) || !bytes.Equal(got.Body, want.Body):
		return fmt.Errorf("the answer is another one: code %d and %d bytes instead of code %d and %d bytes", got.Code,
			len(got.Body), want.Code, len(want.Body))
	}
	return nil
}

func releaseFrees(ctx context.Context, s retrysafe.Store) error {
	p, l, err := take(ctx, s)
	if err != nil {
		return err
	}
	if err := s.Release(ctx, l); err != nil {
		return err
	}
	next, err := expect(ctx, s, byAnother(p), retrysafe.Acquired)
	if err == nil && next.Lease.Fence <= l.Fence {
		err = fmt.Errorf("the fence %d follows %d", next.Lease.Fence, l.Fence)
	}
	return err
}

func stepsSurvive(ctx context.Context, s retrysafe.Store) error {
	p, l, err := take(ctx, s)
	if err != nil {
		return err
	}
	err = errors.Join(
		s.Checkpoint(ctx, l, retrysafe.StepResult{Name: "one", Data: []byte("1")}),
		s.Checkpoint(ctx, l, retrysafe.StepResult{Name: "two", Data: []byte("2")}),
		s.Release(ctx, l))
	if err != nil {
		return err
	}
	c, err := expect(ctx, s, byAnother(p), retrysafe.Acquired)
	if steps := c.Record.Steps; err == nil && (len(steps) != 2 || steps[0].Name != "one" || string(steps[1].Data) != "2") {
		err = fmt.Errorf("%d steps are handed over instead of 2, or others", len(steps))
	}
	return err
}

func zombiesAreRefused(ctx context.Context, s retrysafe.Store) error {
	p, zombie, err := take(ctx, s)
	if err != nil {
		return err
	}
	if err := s.Extend(ctx, zombie, 0); err != nil {
		return err
	}
	if _, err := expect(ctx, s, byAnother(p), retrysafe.Abandoned); err != nil {
		return err
	}
	p = byAnother(p)
	p.TakeOver = true
	if _, err := expect(ctx, s, p, retrysafe.Acquired); err != nil {
		return err
	}
	for what, err := range map[string]error{
		"extend":     s.Extend(ctx, zombie, time.Hour),
		"checkpoint": s.Checkpoint(ctx, zombie, retrysafe.StepResult{Name: "zombie"}),
		"complete":   s.Complete(ctx, zombie, retrysafe.Result{Code: 500}, keep),
		"release":    s.Release(ctx, zombie),
	} {
		if !errors.Is(err, retrysafe.ErrLeaseLost) {
			return fmt.Errorf("%s under the old lease is not refused with an error that the lease is lost: %w", what,
				cmp.Or(err, errors.New("it succeeds")))
		}
	}
	return nil
}

// Two seconds are long enough for a slow server to answer within the first, and for clocks that are rounded to seconds.
const shortLease = 2 * time.Second

func leasesRunOut(ctx context.Context, s retrysafe.Store) error {
	p := params()
	p.Lease = shortLease
	began := time.Now()
	if _, err := expect(ctx, s, p, retrysafe.Acquired); err != nil {
		return err
	}
	acquired := time.Now()
	for {
		asked := time.Now()
		c, err := s.Claim(ctx, byAnother(p))
		switch {
		case err != nil:
			return err
		case c.Verdict == retrysafe.Abandoned && time.Since(began) < shortLease:
			return fmt.Errorf("a lease of %s ran out after %s at most", shortLease, time.Since(began).Round(time.Millisecond))
		case c.Verdict == retrysafe.Abandoned:
			return nil
		case c.Verdict != retrysafe.InFlight:
			return fmt.Errorf("a claim is told %q", c.Verdict)
		case asked.Sub(acquired) > 2*shortLease:
			return fmt.Errorf("a lease of %s runs after %s", shortLease, asked.Sub(acquired).Round(time.Millisecond))
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

func retentionEnds(ctx context.Context, s retrysafe.Store) error {
	const short = time.Second
	p, l, err := take(ctx, s)
	if err != nil {
		return err
	}
	began := time.Now()
	err = s.Complete(ctx, l, retrysafe.Result{Code: 200}, retrysafe.Retention{Replay: short, Key: short, Audit: short})
	for err == nil {
		var c retrysafe.Claim
		asked := time.Now()
		c, err = s.Claim(ctx, byAnother(p))
		switch {
		case err != nil:
		case c.Verdict == retrysafe.Acquired && time.Since(began) < short:
			return fmt.Errorf("a key was free %s before its retention had passed", short-time.Since(began))
		case c.Verdict == retrysafe.Acquired:
			return nil
		case asked.Sub(began) > 10*short:
			return fmt.Errorf("a key is taken %s after its retention has passed", asked.Sub(began)-short)
		default:
			err = pause(ctx)
		}
	}
	return err
}

// pause waits before a claim is repeated.
func pause(ctx context.Context) error {
	select {
	case <-time.After(50 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func oneWins(ctx context.Context, s retrysafe.Store) error {
	const keys, callers = 30, 32
	for range keys {
		p := params()
		claims, errs := make([]retrysafe.Claim, callers), make([]error, callers)
		var all sync.WaitGroup
		for i := range callers {
			all.Go(func() { claims[i], errs[i] = s.Claim(ctx, byAnother(p)) })
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
		won := 0
		for _, c := range claims {
			switch c.Verdict {
			case retrysafe.Acquired:
				won++
			case retrysafe.InFlight:
			default:
				return fmt.Errorf("a claim is told %q", c.Verdict)
			}
		}
		if won != 1 {
			return fmt.Errorf("%d of %d claims at once were acquired", won, callers)
		}
	}
	return nil
}
