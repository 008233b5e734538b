package probe

import (
	"context"
	"fmt"
	"time"
)

// Protocol is another protocol than HTTP that requests can be made by. A package that knows it brings the rules, the cases and the
// calls; Run chooses, counts, judges and reports as it does for HTTP. In a Request the path is then the name of what is called and
// the header its metadata; the status of an Answer is that of HTTP which comes nearest.
type Protocol struct {
	Rules Rules
	Cases []Case
	// Check says why a request cannot be made. It is asked once for each template of the recipe, before anything is sent. May be nil.
	Check func(r Request) error
	// Exchange makes a request once and waits for the answer. Several may be made at the same time.
	Exchange func(ctx context.Context, r Request) Answer
	// Request and Answer are what a timeline shows; credentials have been taken out of the request.
	Request func(r Request) string
	Answer  func(a Answer) string
}

// Run plays the protocol's cases against the target. Of the recipe it wants the target, with a port, a request and a JSON pointer to
// the identity.
func (p Protocol) Run(ctx context.Context, recipe Recipe, o Options) (*Report, error) {
	r := newRun(recipe, p.Rules)
	r.other = &p
	v := recipe.Variants
	for _, t := range []*Template{&recipe.Request, v.Slow, v.Failing, v.Broken} {
		if t == nil {
			continue
		}
		if err := t.Check(); err != nil {
			return nil, fmt.Errorf("recipe: %w", err)
		}
		if p.Check == nil {
			continue
		}
		if err := p.Check(t.build(recipe.Target, r.intents.next(), recipe.A)); err != nil {
			return nil, fmt.Errorf("recipe: %w", err)
		}
	}
	return r.playAll(ctx, p.Cases, o)
}

// Played is the case, and how it is played.
func (c Case) Played(by func(t *Trial)) Case {
	c.run = by
	return c
}

// NewNeed is a need that another package's cases have.
func NewNeed(what string, met func(r *Recipe) bool) Need { return needs(what, met) }

// exchange makes a request and waits for the answer.
func (r *run) exchange(ctx context.Context, q Request) Answer {
	if r.other == nil {
		return r.wire.exchange(ctx, q)
	}
	if err := r.wire.meter.spend(ctx); err != nil {
		return Answer{Err: err, SentAt: time.Now(), EndedAt: time.Now()}
	}
	ctx, cancel := context.WithTimeout(ctx, r.recipe.Limits.Timeout)
	defer cancel()
	a := r.other.Exchange(ctx, q)
	if a.Status != 0 {
		a.Connection = r.wire.meter.connected()
	}
	return a
}

func (r *run) shownRequest(q Request) string {
	if r.other == nil {
		return string(q.head(r.wire.host)) + trimmed(q.Body, 400)
	}
	return r.other.Request(q)
}

func (r *run) shownAnswer(a Answer) string {
	switch {
	case a.Status == 0:
		return ""
	case r.other == nil:
		return shownAnswer(a)
	}
	return r.other.Answer(a)
}

// Context ends when the run is to end.
func (t *Trial) Context() context.Context { return t.ctx }
