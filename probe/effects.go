package probe

import (
	"context"
	"time"
)

// Evidence is how sure the probe can be of effects.
type Evidence string

const (
	ByIdentity Evidence = "E1" // what answers say was created
	ByCount    Evidence = "E2" // counted from outside, where the target or its database says how many there are
	BySink     Evidence = "E3" // seen to arrive, as webhooks do
)

// Witness is a Counter that says how good its evidence is. That of other counters is ByCount.
type Witness interface {
	Counter
	Evidence() Evidence
}

// evidence is how effects are seen.
func (r *Recipe) evidence() Evidence {
	switch c := r.Count.(type) {
	case nil:
		return ByIdentity
	case Witness:
		return c.Evidence()
	}
	return ByCount
}

// settle bounds how long effects may come after the answer.
const settle = 2 * time.Second

// Effects is how many effects the case has had so far. Without a count it is how many different identities the answers show.
// It waits for as many as are expected, and a moment longer, so that a late second one is seen.
func (t *Trial) Effects(expected int, answers ...Answer) (int, error) {
	if t.Recipe.Count == nil {
		ids := map[string]bool{}
		for _, a := range answers {
			if id := t.Recipe.Identity.of(a); id != "" && a.OK() {
				ids[id] = true
			}
		}
		return len(ids), nil
	}
	n, seen, behind := 0, 0, false
	began, lag := time.Now(), t.run.lag // so long a second effect may stay unseen, too
	for time.Since(began) < settle+lag {
		count, err := t.Recipe.Count.Count(t.ctx)
		if err != nil {
			return 0, err
		}
		if n = int(count - t.base); n > expected {
			return n, nil
		}
		if n == expected {
			if seen++; seen == 1 && behind && len(answers) > 0 {
				t.run.lag = max(lag, min(time.Since(answers[0].SentAt), settle))
			}
			if seen > 2 && time.Since(began) >= lag {
				return n, nil
			}
		}
		behind = n < expected
		select {
		case <-time.After(40 * time.Millisecond):
		case <-t.ctx.Done():
			return n, t.ctx.Err()
		}
	}
	return n, nil
}

// base counts what there is before a case. The effects of the last case have to be seen first.
func (r *run) base(ctx context.Context) (int64, error) {
	select {
	case <-time.After(r.lag):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	return r.recipe.Count.Count(ctx)
}

// WantEffects notes a FAIL unless the case has had exactly that many effects so far.
func (t *Trial) WantEffects(want int, answers ...Answer) bool {
	got, err := t.Effects(want, answers...)
	if err != nil {
		t.Brokenf("the effects could not be counted: %v", err)
		return false
	}
	t.ranAgain = t.ranAgain || got > want
	switch {
	case got == want:
		return true
	case t.Recipe.Count == nil && got < want:
		t.Failf("the answers show %s, want %d", things(got), want)
	case t.Recipe.Count == nil:
		t.Failf("the answers show %s, which says that the request ran again; want %d", things(got), want)
	default:
		t.Failf("%s, want %d", effects(got), want)
	}
	return false
}

func things(n int) string { return plural(n, "created thing") }

func effects(n int) string { return plural(n, "effect") }
