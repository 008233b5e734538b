package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/soak"
	"github.com/retrysafe/retrysafe/internal/testing/torture"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

func TestMain(m *testing.M) {
	_ = mysql.SetLogger(&mysql.NopLogger{}) // it tells of each connection that a test kills
	torture.Main(m, tortured(), torturedProcedures())
}

// The store asks its server for the time, so that wrong clocks make no difference. What the tests would see:
// TestSoakMutants.
func TestSoakTorture(t *testing.T) { tortured().Torture(t, soak.Times(t, 12)) }

func TestSoakTortureWithWrongClocks(t *testing.T) {
	tortured().TortureWithWrongClocks(t, soak.Times(t, 4))
}
func TestSoakRace(t *testing.T)    { tortured().Race(t, soak.Times(t, 160)) }
func TestSoakMutants(t *testing.T) { tortured().SeesMutants(t, soak.Times(t, 1)) }

// The traces of the model see what breaks the protocol. What they cannot see is for Torture and Race.
func TestSoakTracesSeeMutants(t *testing.T) {
	t.Parallel()
	torture.TracesSee(t, soak.Times(t, 1), storetest.Harness{
		Open: func(t *testing.T) retrysafe.Store { return openTest(t) },
		Age:  func(t *testing.T, s retrysafe.Store, d time.Duration) { age(t, s.(*Store), d) },
	}, torture.Names(mutations()), map[string]string{
		"time of a claim too late": "it is wrong by a second or less",
		"rows not locked":          "it takes calls at the same time",
	}, func(s retrysafe.Store, mutant string) (retrysafe.Store, error) {
		return mutations()[mutant](s.(*Store))
	})
}

func tortured() torture.Subject {
	return torture.Subject{
		Place: func(t *testing.T) string {
			dsn := shared.Get(t).Database(t)
			openAt(t, dsn, Options{}).Close()
			return dsn
		},
		Open: func(ctx context.Context, place, mutant string) (retrysafe.Store, error) {
			db, err := sql.Open("mysql", place)
			if err != nil {
				return nil, err
			}
			db.SetMaxOpenConns(6)
			s, err := New(ctx, db, Options{})
			if err != nil || mutant == "" {
				return s, err
			}
			return mutations()[mutant](s)
		},
		Mutants:        torture.Names(mutations()),
		RaceMutants:    []string{"rows not locked"},
		FencesAreClock: true,
		Now:            func() time.Time { return time.Now() }, // which TortureWithWrongClocks replaces
	}
}

// mutations break a store, so that the checks have something to see. What is done both directly and in batches is
// broken in both.
func mutations() map[string]func(s *Store) (retrysafe.Store, error) {
	in := func(st func(q *statements) *statement, old, instead string) func(s *Store) error {
		return func(s *Store) error { return st(s.sql).mutate(old, instead) }
	}
	all := func(mutants ...func(s *Store) error) func(s *Store) (retrysafe.Store, error) {
		return func(s *Store) (retrysafe.Store, error) {
			for _, mutate := range mutants {
				if err := mutate(s); err != nil {
					return nil, err
				}
			}
			return s, nil
		}
	}
	lock := func(q *statements) *statement { return q.lock }
	insert := func(q *statements) *statement { return q.insert }
	write := func(q *statements) *statement { return q.write }
	extend := func(q *statements) *statement { return q.extend }
	return map[string]func(s *Store) (retrysafe.Store, error){
		"rows not locked":                 all(in(lock, "FOR UPDATE", ""), inProcedure("FOR UPDATE", "")),
		"time of a claim too late":        all(in(lock, clock+",", clock+" + 300000,")),
		"a key with a record is inserted": all(in(insert, "INSERT IGNORE", "REPLACE")),
		"lease of a new key too short":    all(in(insert, "fence + ?", "fence - 3600000000 + ?")),
		"fence of a take-over not saved":  all(in(write, "fence = VALUES(fence)", "fence = fence")),
		"end of an attempt not saved": all(in(write, "state = VALUES(state)", "state = state"),
			inProcedure("state = new_state", "state = state")),
		"heartbeat not saved": all(in(write, "ends_at = VALUES(ends_at)", "ends_at = ends_at"),
			in(extend, "ends_at = "+lateClock+" +", "ends_at = ends_at + 0 *")),
		"complete without fence and owner": func(s *Store) (retrysafe.Store, error) {
			return torture.AnyLease{Store: s, Call: "complete", Holder: s.holder}, nil
		},
		"procedure without fence and owner": all(inProcedure("AND owner = the_owner AND fence = the_fence", "")),
		"extend without fence and owner":    all(in(extend, "AND owner = ? AND fence = ?", "AND ? <> '' AND ? <> 0")),
		"sweep too early":                   sweepingEarly,
	}
}

// inProcedure has a store call a procedure of its own, which is the one of the migration with a change. All processes
// of a mutant make the same one.
func inProcedure(old, instead string) func(s *Store) error {
	return func(s *Store) error {
		name := inDatabase("{{store_complete}}", s.options.Database)
		rest, err := changedProcedure(s.options.Database, mutation{"store_complete", old, instead})
		if err == nil {
			_, err = s.db.Exec("CREATE PROCEDURE IF NOT EXISTS " + name + "_mutant " + rest)
		}
		return errors.Join(err, s.sql.complete.mutate(name, name+"_mutant"))
	}
}

func sweepingEarly(s *Store) (retrysafe.Store, error) {
	return s, errors.Join(s.sql.dueClaims.mutate(clock, clock+" + 3600000000"),
		s.sql.sweepClaims.mutate(", "+clock, ", "+clock+" + 3600000000"))
}

// mutate changes what a statement says.
func (s *statement) mutate(old, instead string) error {
	var text []string
	for _, p := range s.parts {
		text = append(text, strings.ReplaceAll(p, old, instead))
	}
	row := strings.ReplaceAll(s.row, old, instead)
	if slices.Equal(text, s.parts) && row == s.row {
		return fmt.Errorf("no statement says %q", old)
	}
	s.parts, s.row = text, row
	return nil
}

// holder reads the lease under which a key is claimed.
func (s *Store) holder(ctx context.Context, l retrysafe.Lease) retrysafe.Lease {
	d := l.Key.Digest()
	text := fmt.Sprintf("SELECT owner, fence FROM {{claims}} WHERE k = %s", appendLiteral(nil, d[:]))
	held, owner := l, []byte(nil)
	err := s.read(ctx, func(c *conn) error {
		return c.QueryRowContext(ctx, inDatabase(text, s.options.Database)).Scan(&owner, &held.Fence)
	})
	if err != nil {
		return l
	}
	copy(held.Owner[:], owner)
	return held
}
