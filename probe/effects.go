package probe

import (
	"context"
	"fmt"
	"time"
)

// Evidence is the evidence level of a run: how sure the probe can be of effects.
type Evidence string

const (
	ByIdentity Evidence = "identity" // the identities that answers show
	ByCount    Evidence = "count"    // counted from outside: the target or its database reports how many there are
	ByArrival  Evidence = "arrival"  // counted where effects arrive, as webhooks do
)

// Counter counts the effects that the target has had so far. Only differences between two counts matter, so the count
// may start anywhere. Nothing else may cause effects during a run, or every case would seem to run twice.
type Counter interface {
	Count(ctx context.Context) (int64, error)
}

// RatedCounter is a Counter that reports its evidence level. That of other counters is ByCount.
type RatedCounter interface {
	Counter
	Evidence() Evidence
}

// evidenceOf returns the evidence level that a counter gives. Without a counter, the probe has only what answers show.
func evidenceOf(c Counter) Evidence {
	switch c := c.(type) {
	case nil:
		return ByIdentity
	case RatedCounter:
		return c.Evidence()
	}
	return ByCount
}

// Shown is what an answer shows of an effect: the identity of what was created, "" if none.
type Shown struct {
	Identity string
	SentAt   time.Time // of the request
}

// settle is the longest time that an effect may take to be counted after its answer. Queues and replicas need some.
const settle = 2 * time.Second

// Counts reports whether effects are counted, instead of read from answers.
func (r *Run) Counts() bool { return r.suite.Count != nil }

// Effects returns how many effects the case has had so far. A count that falls is an error. Without a counter, that is the number of different
// identities that the answers show. With one, it waits until as many effects as expected are counted, and then a little
// longer, so that a second effect that arrives late is counted too.
func (r *Run) Effects(expected int, answers ...Shown) (int, error) {
	if !r.Counts() {
		ids := map[string]bool{}
		for _, a := range answers {
			if a.Identity != "" {
				ids[a.Identity] = true
			}
		}
		return len(ids), nil
	}
	n, reached, late := 0, 0, false
	began, lag := time.Now(), r.suite.lag // a second effect may be counted as late as the first
	for time.Since(began) < settle+lag {
		count, err := r.suite.Count.Count(r.ctx)
		if err != nil {
			return 0, err
		}
		if count < r.base {
			return 0, fmt.Errorf("the count fell from %d to %d, so it does not show what the case has done. A target that keeps "+
				"effects in memory loses them when it restarts; let count.get read what outlives it", r.base, count)
		}
		if n = int(count - r.base); n > expected {
			return n, nil
		}
		if n == expected {
			if reached++; reached == 1 && late && len(answers) > 0 {
				r.suite.lag = max(lag, min(time.Since(answers[0].SentAt), settle))
			}
			if reached > 2 && time.Since(began) >= lag {
				return n, nil
			}
		}
		late = n < expected
		if !r.Pause(40 * time.Millisecond) {
			return n, r.ctx.Err()
		}
	}
	return n, nil
}

// WantEffects notes a FAIL unless the case has had exactly that many effects so far. It ends the case if they cannot be
// counted.
func (r *Run) WantEffects(want int, answers ...Shown) bool {
	got := r.MustCount(want, answers...)
	switch {
	case got == want:
		return true
	case !r.Counts() && got < want:
		r.Failf("the answers show %s, want %d", plural(got, "created thing"), want)
	case !r.Counts():
		r.RanAgain("the answers show %s, so the request ran again; want %d", plural(got, "created thing"), want)
	case got > want:
		r.RanAgain("%s, want %d", Amount(got), want)
	default:
		r.Failf("%s, want %d", Amount(got), want)
	}
	return false
}

// MustCount returns what Effects does, and ends the case if the effects cannot be counted.
func (r *Run) MustCount(expected int, answers ...Shown) int {
	n, err := r.Effects(expected, answers...)
	if err != nil {
		r.Brokenf("the effects could not be counted: %v", err)
	}
	return n
}

// RanAgain notes a FAIL because there were more effects than there should be. The search for common causes treats such
// a FAIL differently from one for an answer that only differs.
func (r *Run) RanAgain(format string, args ...any) {
	r.ranAgain = true
	r.Failf(format, args...)
}

// countBase counts the effects before the case. It first waits for effects of the case before that may still arrive.
func (r *Run) countBase() (err error) {
	if !r.Counts() {
		return nil
	}
	if !r.Pause(r.suite.lag) {
		return r.ctx.Err()
	}
	if r.base, err = r.suite.Count.Count(r.ctx); err == nil {
		r.suite.counted = true
	}
	return err
}

// Amount returns a number of effects in words.
func Amount(n int) string { return plural(n, "effect") }

// plural returns a number with a noun in the singular or plural.
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
