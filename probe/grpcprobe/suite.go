package grpcprobe

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/wire"
)

// session is one run of the suite against one server.
type session struct {
	recipe  *Recipe
	rules   rules
	client  *client
	meter   *probe.Meter
	intents *probe.Intents
}

// Cases returns all cases in the order in which they run, for lists. Run plays them.
func Cases() []probe.Case { return cases(&session{}) }

// Run plays the cases against the target, one after the other, and reports. It returns an error if the recipe is
// wrong, if the target cannot be reached or does not offer reflection, or if ctx ends.
func Run(ctx context.Context, recipe Recipe, o probe.Options) (*probe.Report, error) {
	if err := recipe.check(); err != nil {
		return nil, wrong{err}
	}
	rules, err := recipe.rules()
	if err != nil {
		return nil, wrong{err}
	}
	recipe.Limits = recipe.Limits.WithDefaults()
	s := &session{
		recipe: &recipe, rules: rules, client: newClient(&recipe), meter: probe.NewMeter(recipe.Limits),
		intents: probe.NewIntents(),
	}
	defer s.client.close()
	if err := s.lookUp(ctx); err != nil {
		return nil, err
	}
	report, err := probe.Play(ctx, probe.Suite{
		Cases: cases(s), Target: recipe.target(), Profile: rules.name, Count: recipe.Count, Meter: s.meter,
		Mask: s.credentials().Mask,
		Observed: probe.Observed{
			Schema: probe.ObservedSchema, Profile: rules.name, Protocol: "grpc", Header: rules.header, Member: rules.field,
		},
	}, o)
	if report != nil {
		report.Observed.Protocol = "grpc" // also if no case could be played
	}
	return report, err
}

// lookUpTimeout is how long a server may take to describe itself.
const lookUpTimeout = 15 * time.Second

// lookUp gets the descriptors of the recipe's calls from the server, and checks that the calls can be made.
func (s *session) lookUp(ctx context.Context) error {
	var calls []probe.Template
	for _, t := range s.recipe.calls() {
		if err := t.Check(); err != nil {
			return wrongf("recipe: %w", err)
		}
		calls = append(calls, t)
	}
	ctx, cancel := context.WithTimeout(ctx, lookUpTimeout)
	defer cancel()
	as := call{metadata: s.recipe.Call.Metadata}.as(s.recipe.A...)
	if err := s.client.lookUp(ctx, calls, as.metadata); err != nil {
		return fmt.Errorf("target %s: %w", s.recipe.Target, err)
	}
	for _, t := range calls {
		if err := s.client.schema.check(s.fill(t, s.intents.Next()), s.rules.field); err != nil {
			return wrongf("recipe: %w", err)
		}
	}
	return nil
}

// fill returns a call for an intent of caller A.
func (s *session) fill(t probe.Template, v probe.Intent) call {
	c := call{path: v.Fill(t.Path), message: []byte(v.Fill(t.Body))}
	for _, h := range t.Header {
		c.metadata = append(c.metadata, wire.HeaderLine{Name: h.Name, Value: v.Fill(h.Value)})
	}
	return c.as(s.recipe.A...)
}

// credentials returns the credentials of the recipe by the names that reports show.
func (s *session) credentials() probe.Credentials {
	return probe.Credentials{"A": s.recipe.A, "B": s.recipe.B}
}

// statusOf returns the HTTP status that a report shows for a code.
func statusOf(c codes.Code) int { return cmp.Or(statuses[c], http.StatusInternalServerError) }

// play binds a case to the session.
func (s *session) play(play func(t *run)) func(r *probe.Run) {
	return func(r *probe.Run) { play(&run{r, s}) }
}

// needs binds a need to the session's recipe.
func (s *session) needs(what string, met func(r *Recipe) bool) []probe.Need {
	return []probe.Need{{What: what, Met: func() bool { return met(s.recipe) }}}
}
