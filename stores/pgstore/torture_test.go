package pgstore

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/soak"
	"github.com/retrysafe/retrysafe/internal/testing/torture"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

func TestMain(m *testing.M) { torture.Main(m, tortured(), torturedFunctions(setting{})) }

// What they would see: TestSoakMutants.
func TestSoakTorture(t *testing.T) { tortured().Torture(t, soak.Times(t, 12)) }
func TestSoakRace(t *testing.T)    { tortured().Race(t, soak.Times(t, 160)) }
func TestSoakMutants(t *testing.T) { tortured().SeesMutants(t, soak.Times(t, 1)) }

// The store asks its server for the time, so that wrong clocks make no difference. Seen to fail with acquire.sql judging
// by the time that the process sent along.
func TestSoakTortureWithWrongClocks(t *testing.T) {
	tortured().TortureWithWrongClocks(t, soak.Times(t, 4))
}

// The traces of the model see what breaks the protocol. What they cannot see is for Torture and Race.
func TestSoakTracesSeeMutants(t *testing.T) {
	t.Parallel()
	torture.TracesSee(t, soak.Times(t, 1), storetest.Harness{
		Open: func(t *testing.T) retrysafe.Store { return openTest(t) },
		Age:  func(t *testing.T, s retrysafe.Store, d time.Duration) { age(t, s.(*Store), d) },
	}, torture.Names(mutations(new(statements))), map[string]string{
		"claim without lease": "a claim reads the record first, so that it takes calls at the same time",
		"sweep too early":     "it is wrong by a second or less",
	}, func(s retrysafe.Store, mutant string) (retrysafe.Store, error) {
		return s, mutations(s.(*Store).sql)[mutant].Apply()
	})
}

// tortured is this store, in several processes.
func tortured() torture.Subject {
	return torture.Subject{
		Place: func(t *testing.T) string {
			url := shared.Get(t).Database(t)
			openAt(t, url, Options{})
			return url
		},
		Open: func(ctx context.Context, url, mutant string) (retrysafe.Store, error) {
			pool, err := pgxpool.New(ctx, url)
			if err != nil {
				return nil, err
			}
			s, err := New(ctx, pool, Options{})
			if err == nil && mutant != "" {
				err = mutations(s.sql)[mutant].Apply()
			}
			return s, err
		},
		Mutants:        torture.Names(mutations(new(statements))),
		RaceMutants:    []string{"claim without lease"},
		FencesAreClock: true,
		Now:            func() time.Time { return time.Now() }, // which TortureWithWrongClocks replaces
		Children: map[string]func(url string) error{
			"transactions": transacting(inSQLTx, inTx), "two transactions": transacting(apart),
		},
	}
}

// mutations break a statement, so that the checks have something to see. Each takes one condition out of it.
func mutations(q *statements) map[string]torture.Mutation {
	const holder = " AND c.fence = p.fence AND c.owner = p.owner"
	return map[string]torture.Mutation{
		"complete without fence":           without(&q.steps[stepComplete], " AND c.fence = p.fence"),
		"complete without fence and owner": without(&q.steps[stepComplete], holder),
		"extend without fence and owner":   without(&q.steps[stepExtend], holder),
		"release without fence and owner":  without(&q.steps[stepRelease], holder),
		"checkpoint without fence and owner": without(&q.steps[stepCheckpoint],
			" AND c.owner = p.owner AND c.fence = p.fence"),
		"checkpoint that saves one step": instead(&q.steps[stepCheckpoint], "name, data FROM held",
			"name, data FROM held WHERE steps < 2"),
		"claim without lease": without(&q.steps[stepAcquire], " AND c.ends_at <= excluded.claimed_at"),
		"sweep too early": {
			{Text: &q.sweepClaims, Old: "<= (SELECT now FROM m)", Instead: "<= (SELECT now + 1000000 FROM m)"},
			// Otherwise nobody sweeps for a minute after the death of a process that did.
			{Text: &q.takeSweepLock, Old: " AND (until <= ", Instead: " AND (0 <= "},
		},
	}
}

func without(s *statement, part string) torture.Mutation { return instead(s, part, "") }

func instead(s *statement, old, instead string) torture.Mutation {
	return torture.Mutation{{Text: &s.many, Old: old, Instead: instead}, {Text: &s.one, Old: old, Instead: instead}}
}
