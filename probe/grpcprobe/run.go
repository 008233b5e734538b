package grpcprobe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe/probe"
)

// ErrRecipe is what errors of Run are that say what is wrong with the recipe, also those for which the server had to be asked what it
// has. Nothing has been called then.
var ErrRecipe = errors.New("the recipe is wrong")

// wrong is an error that is ErrRecipe.
type wrong struct{ error }

// Is implements what errors.Is asks for.
func (wrong) Is(target error) bool { return target == ErrRecipe }

// Run plays the cases against the target, one after the other, and reports. It returns an error if the recipe is wrong, if the
// target cannot be reached or does not offer reflection, or if ctx ends.
func Run(ctx context.Context, recipe Recipe, o probe.Options) (*probe.Report, error) {
	if err := recipe.check(); err != nil {
		return nil, wrong{err}
	}
	rules, err := recipe.rules()
	if err != nil {
		return nil, wrong{err}
	}
	s := &suite{rules: rules, client: newClient(&recipe)}
	defer s.client.close()
	plain := recipe.plain()
	if err := s.lookUp(ctx, plain); err != nil {
		return nil, err
	}
	report, err := s.protocol().Run(ctx, plain, o)
	if report != nil {
		report.Observed.Protocol = "grpc" // also if no case could be played
	}
	return report, err
}

// lookUpTimeout is how long a server may take to describe itself.
const lookUpTimeout = 15 * time.Second

func (s *suite) lookUp(ctx context.Context, recipe probe.Recipe) error {
	calls := []probe.Template{recipe.Request}
	for _, t := range []*probe.Template{recipe.Variants.Slow, recipe.Variants.Failing, recipe.Variants.Broken} {
		if t != nil {
			calls = append(calls, *t)
		}
	}
	for _, t := range calls {
		if err := t.Check(); err != nil {
			return wrong{fmt.Errorf("recipe: %w", err)}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, lookUpTimeout)
	defer cancel()
	as := probe.Request{Header: recipe.Request.Header}.As(recipe.A)
	if err := s.client.lookUp(ctx, calls, as.Header); err != nil {
		return fmt.Errorf("target %s: %w", recipe.Target.Host, err)
	}
	return nil
}

func (s *suite) protocol() probe.Protocol {
	return probe.Protocol{
		Rules: s.rules.Rules, Cases: s.cases(), Request: shownRequest, Answer: shownAnswer, Exchange: s.client.exchange,
		Check: func(r probe.Request) error {
			if err := s.client.schema.check(r, s.rules.Member); err != nil {
				return wrong{err}
			}
			return nil
		},
	}
}

// suite is the cases for one server.
type suite struct {
	rules  rules
	client *client
}

// Cases are all of them in the order in which they are played.
func Cases() []probe.Case { return new(suite).cases() }

// trial is one case being played.
type trial struct {
	*probe.Trial
	rules  rules
	client *client
}

func (s *suite) by(play func(t *trial)) func(t *probe.Trial) {
	return func(t *probe.Trial) {
		play(&trial{t, s.rules, s.client})
	}
}

// works makes the first call of a case: it must succeed, or there is nothing to look at.
func (t *trial) works(label string, r probe.Request) (probe.Answer, bool) {
	a := t.Send(label, r)
	switch {
	case a.Status == 0:
		t.Brokenf("the target did not answer the first call (%d): %v", a.No, a.Err)
	case !a.OK():
		t.Brokenf("the target refused the first call (%d) with %s", a.No, said(a))
	case t.identity(a) == "":
		t.Brokenf("the response (%d) has nothing at %s: %s", a.No, t.Recipe.Identity.Pointer, shortened(a.Body, 200))
	default:
		return a, true
	}
	return a, false
}

// identity is what tells one created thing from another; "" if the answer says nothing of it.
func (t *trial) identity(a probe.Answer) string {
	id, err := a.JSON(t.Recipe.Identity.Pointer)
	if err != nil || !a.OK() {
		return ""
	}
	return id
}

// inField reports whether the request carries the key.
func (t *trial) inField() bool { return t.rules.Member != "" }

// right reports whether a code is one of those that the profile has; where it has none, all are.
func right(a probe.Answer, among codesOf) bool {
	return len(among) == 0 || slices.Contains(among, codeOf(a))
}

// said is what an answer says, in a few words.
func said(a probe.Answer) string {
	if a.Status == 0 {
		return fmt.Sprintf("no answer: %v", a.Err)
	}
	return a.Code + " " + shortened(a.Body, 200)
}
