package redisstore

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/soak"
	"github.com/retrysafe/retrysafe/internal/testing/torture"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

func TestMain(m *testing.M) { torture.Main(m, tortured()) }

// What they would see: TestSoakMutants.
func TestSoakTorture(t *testing.T) { tortured().Torture(t, soak.Times(t, 12)) }
func TestSoakRace(t *testing.T)    { tortured().Race(t, soak.Times(t, 160)) }
func TestSoakMutants(t *testing.T) { tortured().SeesMutants(t, soak.Times(t, 1)) }

// The clocks of a third of the processes are an hour fast, those of another third an hour slow: there is no difference.
// Seen to fail with the end of a lease counted by the clock of the client.
func TestSoakTortureWithWrongClocks(t *testing.T) {
	tortured().TortureWithWrongClocks(t, soak.Times(t, 4))
}

// The traces of the model see what breaks the protocol. What they cannot see is for Torture and Race.
func TestSoakTracesSeeMutants(t *testing.T) {
	t.Parallel()
	torture.TracesSee(t, soak.Times(t, 1), storetest.Harness{
		Open: func(t *testing.T) retrysafe.Store { return openTest(t) },
		Age:  func(t *testing.T, s retrysafe.Store, d time.Duration) { age(t, s.(*Store), d) },
	}, torture.Names(mutations()), map[string]string{
		"expiry too early":                   "it is wrong by a second or less",
		"key of a claim expires too early":   "lifetimes of the server's keys are aged along",
		"key of an answer expires too early": "lifetimes of the server's keys are aged along",
	}, func(s retrysafe.Store, mutant string) (retrysafe.Store, error) {
		return s, mutations()[mutant].apply(s.(*Store).scripts)
	})
}

// tortured is this store on the shared server, under a prefix of its own.
func tortured() torture.Subject {
	return torture.Subject{
		Place: func(t *testing.T) string { return shared.Get(t).Address() + " " + retrysafe.NewOwner().String() + ":" },
		Open: func(ctx context.Context, place, mutant string) (retrysafe.Store, error) {
			address, prefix, _ := strings.Cut(place, " ")
			client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address}, DisableCache: true})
			if err != nil {
				return nil, err
			}
			s, err := New(ctx, client, Options{Prefix: prefix, Index: true})
			if err == nil && mutant != "" {
				err = mutations()[mutant].apply(s.scripts)
			}
			return s, err
		},
		Mutants:        torture.Names(mutations()),
		RaceMutants:    []string{"lease of a new key too short"},
		FencesAreClock: true,
		Now:            func() time.Time { return time.Now() }, // what TortureWithWrongClocks replaces
	}
}

// mutation changes what a script says.
type mutation struct {
	script       func(*scripts) **script
	text         string
	old, instead string
}

// mutations take one condition out of one script, so that the checks have something to see.
func mutations() map[string]mutation {
	claim := func(s *scripts) **script { return &s.claim }
	extend := func(s *scripts) **script { return &s.extend }
	checkpoint := func(s *scripts) **script { return &s.checkpoint }
	complete := func(s *scripts) **script { return &s.complete }
	release := func(s *scripts) **script { return &s.release }
	return map[string]mutation{
		"claim despite a running lease":      {claim, claimScript, "if now < ended then return {now, 2, v} end", ""},
		"lease of a new key too short":       {claim, claimScript, "local f = ", "ends = ends - 3600000000 local f = "},
		"expiry too early":                   {claim, claimScript, "now < ended + key", "now < ended + key - 1000000"},
		"extend without fence and owner":     {extend, extendScript, "h:sub(4, 27) ~= ARGV[1] or", ""},
		"checkpoint overwrites the first":    {checkpoint, checkpointScript, "steps + #ARGV[3]", "#ARGV[3]"},
		"complete without fence and owner":   {complete, completeScript, "or v:sub(4, 27) ~= ARGV[1]", ""},
		"complete of an ended key":           {complete, completeScript, "if state > 2 then return 1 end", ""},
		"release without fence and owner":    {release, releaseScript, "or h:sub(4, 27) ~= ARGV[1]", ""},
		"key of a claim expires too early":   {claim, claimScript, "/ 1000) + 600000", "/ 1000) - 320"},
		"key of an answer expires too early": {complete, completeScript, "/ 1000) + 600000", "/ 1000) - 200"},
	}
}

// apply has the store run the changed script.
func (m mutation) apply(s *scripts) error {
	text := m.text
	if err := (torture.Mutation{{Text: &text, Old: m.old, Instead: m.instead}}).Apply(); err != nil {
		return err
	}
	*m.script(s) = newScript(indexed(text))
	return nil
}
