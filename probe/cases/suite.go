package cases

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/profile"
	"github.com/retrysafe/retrysafe/probe/wire"
)

// All are the cases in the order in which they run, to be listed. Run plays them.
func All() []probe.Case { return (&session{}).cases() }

// Run plays the cases against the target, one after the other, and reports. It returns an error if the recipe is
// wrong, if the options name an unknown case, if the effects cannot be counted, or if ctx ends.
func Run(ctx context.Context, recipe probe.Recipe, o probe.Options) (*probe.Report, error) {
	recipe = recipe.WithKeyPlace()
	if err := check(&recipe); err != nil {
		return nil, err
	}
	rules := recipe.Declared()
	recipe.Limits = recipe.Limits.WithDefaults()
	meter := probe.NewMeter(recipe.Limits)
	s := &session{
		recipe: &recipe, rules: rules, meter: meter, client: wire.New(recipe.Target, recipe.Limits.Timeout, meter),
		intents: probe.NewIntents(),
	}
	return probe.Play(ctx, probe.Suite{
		Cases: s.cases(), Target: recipe.Target.Redacted(), Profile: rules.Name, Count: recipe.Count, Meter: meter,
		Observed: s.observed(), Mask: s.mask, Route: recipe.Route,
	}, o)
}

// session is one run of the suite against one target.
type session struct {
	recipe  *probe.Recipe
	rules   profile.Rules
	client  *wire.Client
	meter   *probe.Meter
	intents *probe.Intents
	// limited: a rate limit has not ended for as long as a request may wait, so the next requests do not wait for it.
	limited atomic.Bool

	secretsMu sync.Mutex
	secrets   []string // saved values of this case that stand in headers
}

// cases returns all cases in the order in which they run.
func (s *session) cases() []probe.Case {
	return s.withoutHeaderCases(slices.Concat(
		basics(s), keys(s), mismatches(s), concurrency(s), failures(s), behind(s), scopes(s), hygiene(s), expiry(s),
	))
}

// play binds a case to the session.
func (s *session) play(play func(t *run)) func(r *probe.Run) {
	return func(r *probe.Run) {
		s.forgetSaved()
		play(&run{Run: r, session: s})
	}
}

// check reports what the recipe lacks.
func check(r *probe.Recipe) error {
	switch {
	case r.Target == nil || r.Target.Host == "":
		return errors.New("recipe: target is missing: write the URL of the API")
	case r.Target.Scheme != "http" && r.Target.Scheme != "https":
		return fmt.Errorf("recipe: target %s: use http or https", r.Target.Redacted())
	case r.Request.Path == "":
		return errors.New("recipe: request.path is missing")
	case r.Identity.Pointer == "" && r.Identity.Header == "":
		return errors.New("recipe: identity is missing: write where an answer identifies what was created")
	case r.KeyBody != "" && (r.KeyHeader != "" || r.KeyQuery != "") || r.KeyHeader != "" && r.KeyQuery != "":
		return errors.New("recipe: the key can be in one place only: keep one of key_header, key_body and key_query")
	case r.KeyBody != "" && !strings.HasPrefix(r.KeyBody, "/"):
		return fmt.Errorf("recipe: key_body %q is not a JSON pointer: it begins with a slash", r.KeyBody)
	}
	if _, err := profile.Of(r.Profile); r.Rules == nil && err != nil {
		return err
	}
	return r.Request.Check()
}

// observed returns what the recipe and the profile say of the API before the first case.
func (s *session) observed() probe.Observed {
	o := probe.Observed{
		Schema: probe.ObservedSchema, Profile: cmp.Or(s.rules.Base, s.rules.Name),
		Header: s.rules.Header, Member: s.rules.Member, PolicyURL: s.recipe.PolicyURL,
	}
	switch pointer := s.recipe.KeyBody; {
	case s.recipe.KeyHeader != "":
		o.Header, o.Member = s.recipe.KeyHeader, ""
	case s.recipe.KeyQuery != "":
		o.Header, o.Member, o.Query = "", "", s.recipe.KeyQuery
	case strings.Count(pointer, "/") > 1:
		o.Header, o.Member, o.Pointer = "", "", pointer
	case pointer != "":
		o.Header, o.Member = "", strings.NewReplacer("~1", "/", "~0", "~").Replace(pointer[1:])
	}
	return o
}

// credentials returns the credentials of the recipe by the names that reports show.
func (s *session) credentials() probe.Credentials {
	r := s.recipe
	return probe.Credentials{"A": r.A, "A again": r.AAgain, "B": r.B, "revoked": r.Revoked}
}

// mask removes the credentials of the recipe from a text, and the saved values that stand in headers.
func (s *session) mask(text string) string { return s.withoutSaved(s.credentials().Mask(text)) }

// shownRequest returns a request as the timeline shows it: its head and the beginning of its body, without credentials.
func (s *session) shownRequest(r wire.Request, host string) string {
	r.Header = s.credentials().Hide(r.Header)
	return s.withoutSaved(string(r.Head(host)) + wire.Shorten(r.Body, 400))
}

// shownAnswer returns an answer as the timeline shows it, without credentials: some targets repeat what they were sent.
func (s *session) shownAnswer(a wire.Answer) string {
	if a.Status == 0 {
		return ""
	}
	var head strings.Builder
	fmt.Fprintf(&head, "%d\n", a.Status)
	_ = a.Header.Write(&head)
	return s.mask(head.String()) + "\n" + wire.Shorten([]byte(s.mask(string(a.Plain()))), 400)
}
