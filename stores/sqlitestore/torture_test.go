package sqlitestore

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

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

// The traces of the model see what breaks the protocol. What they cannot see is for Torture and Race.
func TestSoakTracesSeeMutants(t *testing.T) {
	t.Parallel()
	torture.TracesSee(t, soak.Times(t, 1), storetest.Harness{
		Open: func(t *testing.T) retrysafe.Store { return openTest(t) },
		Age:  func(_ *testing.T, s retrysafe.Store, d time.Duration) { age(s.(*Store), d) },
	}, torture.Names(mutations()), map[string]string{
		"lease of a take-over too short": "it is wrong by a second or less",
		"sweep too early":                "it is wrong by a second or less",
	}, func(s retrysafe.Store, mutant string) (retrysafe.Store, error) {
		return s, mutations()[mutant].apply(s.(*Store))
	})
}

// tortured is this store in one process, because a file serves one: it is killed and paused, and another one continues
// with the file.
func tortured() torture.Subject {
	return torture.Subject{
		OneProcess: true,
		Place:      func(t *testing.T) string { return filepath.Join(t.TempDir(), "store.db") },
		Open: func(_ context.Context, path, mutant string) (retrysafe.Store, error) {
			s, err := Open(path, Options{})
			if err == nil && mutant != "" {
				err = mutations()[mutant].apply(s)
			}
			return s, err
		},
		Mutants:        torture.Names(mutations()),
		RaceMutants:    []string{"lease of a new key too short"},
		FencesAreClock: true,
		Children: map[string]func(path string) error{
			"claims": claiming(claimSome), "early answers": claiming(claimSomeTooEarly),
			"transactions": transacting(inTx), "two transactions": transacting(apart),
			"hold": holdUntilKilled, "limited": writeInSmallSpace,
		},
	}
}

// mutation changes what a statement says.
type mutation struct {
	query        query
	old, instead string
}

// mutations break a statement, so that the checks have something to see. What Go code decides is in storekit, whose
// conditions pgstore's mutations take out.
func mutations() map[string]mutation {
	const holder, anyHolder = "AND fence = ? AND owner = ?", "AND ? IS NOT NULL AND ? IS NOT NULL"
	return map[string]mutation{
		"complete without fence and owner": {"complete", holder, anyHolder},
		"extend without fence and owner":   {"extend", holder, anyHolder},
		"complete of an ended key":         {"complete", "AND state = 1", ""},
		"checkpoint not counted":           {"count_step", "steps + 1", "steps"},
		"lease of a new key too short":     {"insert", "?, zeroblob", "? - 3600000000, zeroblob"},
		"lease of a take-over too short":   {"acquire", "ends_at = ?4", "ends_at = ?4 - 30000"},
		"sweep too early":                  {"sweep", "keep_key > ?", "keep_key > ? + 1000000"},
		"transaction not committed":        {"commit", "COMMIT", "ROLLBACK"},
	}
}

// apply has the connection that writes use the changed statement.
func (m mutation) apply(s *Store) error {
	text := m.query.text()
	if err := (torture.Mutation{{Text: &text, Old: m.old, Instead: m.instead}}).Apply(); err != nil {
		return fmt.Errorf("%s.sql: %w", m.query, err)
	}
	return s.writer.conn.Raw(func(any) error {
		_, err := s.writer.run.prepareText(m.query, text)
		return err
	})
}
