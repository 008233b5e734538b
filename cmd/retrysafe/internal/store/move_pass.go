package store

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
)

const (
	// lookers is how many keys are looked up at once.
	lookers = 16
	// soon is how long the command waits for keys to end. Some always do just when they are looked at: a record in the
	// second store ends a moment after the one in the first.
	soon = 10 * time.Second
	// betweenClaims is how long the claim of a key in the second store may take.
	betweenClaims = time.Second
)

// pass goes once through the records of the old store.
type pass struct {
	old, next retrysafe.Inspector
	quiet     time.Duration
	progress  io.Writer

	read    atomic.Int64 // records
	mu      sync.Mutex
	waiting []retrysafe.Digest // keys to look at again, after wait
	wait    time.Duration
	seen    int           // keys that counted
	lacking int           // keys that the new store lacks
	cut     int           // keys whose only claim in the old store has run out
	running int           // keys that are worked on in the old store alone
	longest time.Duration // what is left of these
}

// look judges a key whose record was listed, or listed before; last says that there is no time to wait for its end.
type look func(ctx context.Context, r retrysafe.Record, last bool) error

// each has the records of the old store looked at, and those that end soon looked at again then.
func (p *pass) each(ctx context.Context, look look) error {
	done := p.report()
	defer done()
	if err := p.inParallel(ctx, p.list, func(ctx context.Context, r retrysafe.Record) error {
		p.read.Add(1)
		return look(ctx, r, false)
	}); err != nil || len(p.waiting) == 0 || p.lacking > 0 {
		return err
	}
	select {
	case <-time.After(p.wait + time.Second): // the clocks of the stores may differ
	case <-ctx.Done():
		return ctx.Err()
	}
	return p.inParallel(ctx, func(ctx context.Context, found chan<- retrysafe.Record) error {
		for _, d := range p.waiting {
			r, err := newest(ctx, p.old, d)
			if err != nil {
				return fmt.Errorf("the old store: %w", err)
			}
			if err := send(ctx, found, r); err != nil {
				return err
			}
		}
		return nil
	}, func(ctx context.Context, r retrysafe.Record) error { return look(ctx, r, true) })
}

// waitFor notes a key that is to be looked at again after d, and reports whether that is soon enough.
func (p *pass) waitFor(r retrysafe.Record, d time.Duration) bool {
	if d > soon {
		return false
	}
	p.waiting, p.wait = append(p.waiting, r.Key.Digest()), max(p.wait, d)
	return true
}

// inParallel calls look for what produce sends, in several goroutines, until one returns an error.
func (p *pass) inParallel(ctx context.Context, produce func(context.Context, chan<- retrysafe.Record) error,
	look func(context.Context, retrysafe.Record) error,
) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	found := make(chan retrysafe.Record, lookers)
	var all sync.WaitGroup
	for range lookers {
		all.Go(func() {
			for r := range found {
				if err := look(ctx, r); err != nil {
					stop(err)
					return
				}
			}
		})
	}
	err := produce(ctx, found)
	close(found)
	all.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

func send(ctx context.Context, to chan<- retrysafe.Record, r retrysafe.Record) error {
	select {
	case to <- r:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// list sends the records of the old store, in one pass over it.
func (p *pass) list(ctx context.Context, found chan<- retrysafe.Record) error {
	err := retrysafe.Walk(ctx, p.old, func(r retrysafe.Record) error { return send(ctx, found, r) })
	if err != nil {
		return fmt.Errorf("the old store: %w", err)
	}
	return nil
}

// report says each second how far the pass is, until the function that it returns is called.
func (p *pass) report() (done func()) {
	ended := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				return
			case <-tick.C:
				fmt.Fprintf(p.progress, "%d keys of the old store looked at\n", p.read.Load())
			}
		}
	})
	return func() {
		close(ended)
		writer.Wait()
	}
}

// newest returns the record of a key that takes part in claims; without a state if there is none.
func newest(ctx context.Context, of retrysafe.Inspector, d retrysafe.Digest) (retrysafe.Record, error) {
	found, err := of.Inspect(ctx, d)
	if err != nil || len(found) == 0 {
		return retrysafe.Record{}, err
	}
	return found[0], nil
}

// left is how long a record has a meaning for claims.
func left(r retrysafe.Record) time.Duration { return max(r.KeyLeft, r.LeaseLeft) }

// both reads a key in the new store and, if need be, again in the old one: with its steps, and as it is by now.
func (p *pass) both(ctx context.Context, r retrysafe.Record) (old, next retrysafe.Record, err error) {
	d := r.Key.Digest()
	if next, err = newest(ctx, p.next, d); err != nil {
		return r, next, fmt.Errorf("the new store: %w", err)
	}
	if next.State.Ended() && left(next) > 0 {
		return r, next, nil
	}
	if old, err = newest(ctx, p.old, d); err != nil {
		err = fmt.Errorf("the old store: %w", err)
	}
	return old, next, err
}

// isRecent reports whether a process has worked on a record within the time that is to be quiet: it claimed it first,
// works on it, or has ended it, as the attempt that took long does or one that resumes an older one.
func (p *pass) isRecent(r retrysafe.Record) bool {
	return r.Age <= p.quiet || r.LeaseLeft > 0 || r.State != retrysafe.Pending && r.EndedAge <= p.quiet
}

// mirrored looks for keys that were claimed in the old store alone: a process at stage 0 does that.
func (p *pass) mirrored(ctx context.Context) (check, error) {
	err := p.each(ctx, func(ctx context.Context, r retrysafe.Record, last bool) error {
		if !last && (r.Age < betweenClaims || !p.isRecent(r)) || left(r) == 0 {
			return nil
		}
		old, next, err := p.both(ctx, r)
		if err != nil {
			return err
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if !last {
			p.seen++
		}
		pending := old.State == retrysafe.Pending
		switch {
		case next.State != 0 || left(old) == 0:
		case pending && old.LeaseLeft == 0:
			p.cut++ // at stage 2 the key is abandoned, as it is now
		case !last && pending && p.waitFor(old, old.LeaseLeft), !last && !pending && p.waitFor(old, left(old)):
		case pending:
			p.running, p.longest = p.running+1, max(p.longest, old.LeaseLeft)
		default:
			p.lacking++
		}
		return nil
	})
	found := check{Name: "every key that is in use is in both stores", OK: p.lacking+p.running == 0}
	found.Detail = fmt.Sprintf("%d keys were claimed or ended within %v or are being worked on, of which the new store "+
		"lacks %d", p.seen, p.quiet, p.lacking+p.running)
	switch {
	case p.lacking > 0:
		found.Detail += ": a process is at stage 0, or was until a moment ago"
	case p.running > 0:
		found.Detail += fmt.Sprintf(": a process is at stage 0, or one was killed while it claimed them, which is known "+
			"when their leases have run out, in %s", cli.Span(p.longest))
	case p.cut > 0:
		found.Detail += fmt.Sprintf(", and %d whose processes were killed while they claimed them: these are abandoned", p.cut)
	}
	return found, err
}

// covered looks for keys that the old store alone protects.
func (p *pass) covered(ctx context.Context) (check, error) {
	err := p.each(ctx, func(ctx context.Context, r retrysafe.Record, last bool) error {
		if left(r) == 0 {
			return nil
		}
		old, next, err := p.both(ctx, r)
		if err != nil {
			return err
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		switch {
		case left(old) == 0 || covers(next, old):
		case !last && p.waitFor(old, left(old)):
		default:
			p.lacking, p.longest = p.lacking+1, max(p.longest, left(old))
		}
		return nil
	})
	found := check{Name: "the old store is not needed any more", OK: p.lacking == 0}
	found.Detail = "the new store has all of its keys"
	if p.lacking > 0 {
		found.Detail = fmt.Sprintf("%d keys are in the old store alone: it is needed for another %s, until %s", p.lacking,
			cli.Span(p.longest), time.Now().Add(p.longest).UTC().Format(time.RFC3339))
	}
	return found, err
}

// covers reports whether a record of the new store says all that the key's record in the old one does, so that the old
// one is not needed. An unfinished one must have each step that the old one has: an attempt that resumes would run it
// again. One that only people can read any more protects nothing.
func covers(next, old retrysafe.Record) bool {
	switch {
	case left(next) == 0:
		return false
	case next.State.Ended():
		return true
	case old.State.Ended(), old.State == retrysafe.Pending && next.State != retrysafe.Pending:
		return false
	}
	return !slices.ContainsFunc(old.Steps, func(step retrysafe.StepResult) bool {
		return !slices.ContainsFunc(next.Steps, func(s retrysafe.StepResult) bool { return s.Name == step.Name })
	})
}
