package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/soak"
	"github.com/retrysafe/retrysafe/internal/testing/torture"
)

// What they would see: TestSoakProceduresMutants.
func TestSoakTortureOfProcedures(t *testing.T) { torturedProcedures().Torture(t, soak.Times(t, 12)) }

func TestSoakRaceForProcedures(t *testing.T) { torturedProcedures().Race(t, soak.Times(t, 96)) }
func TestSoakProceduresMutants(t *testing.T) { torturedProcedures().SeesMutants(t, soak.Times(t, 1)) }

// torturedProcedures is a store over the procedures, whose calls have the rights of a service's account alone, unless a
// record is of another request.
func torturedProcedures() torture.Subject {
	return torture.Subject{
		Name: "procedures",
		Place: func(t *testing.T) string {
			owner := openTest(t)
			return shared.Get(t).DSN(owner.options.Database) + "\n" + serviceAt(t, owner, nil)
		},
		Open: func(ctx context.Context, place, mutant string) (retrysafe.Store, error) {
			tables, service, _ := strings.Cut(place, "\n")
			db, err := sql.Open("mysql", tables)
			if err != nil {
				return nil, err
			}
			db.SetMaxOpenConns(3)
			owner, err := New(ctx, db, Options{})
			if err == nil && mutant != "" {
				err = breakProcedure(db, owner.options.Database, procedureMutations()[mutant])
			}
			if err != nil {
				return nil, err
			}
			s := &serviceStore{Inspector: owner, Sweeper: owner, database: owner.options.Database}
			for dsn, pool := range map[string]**sql.DB{service: &s.service, tables: &s.tables} {
				if *pool, err = sql.Open("mysql", dsn); err != nil {
					return nil, err
				}
				(*pool).SetMaxOpenConns(6)
				(*pool).SetMaxIdleConns(6)
			}
			return s, nil
		},
		Mutants:        torture.Names(procedureMutations()),
		RaceMutants:    []string{"claim that decides before it locks"},
		FencesAreClock: true,
		Unsure: func(err error) bool { // a connection to be made, just before the context says that its time is over
			var n net.Error
			return errors.As(err, &n) && n.Timeout()
		},
	}
}

// mutation takes a condition out of a procedure.
type mutation struct{ procedure, old, instead string }

func procedureMutations() map[string]mutation {
	const holds = "c.owner = the_owner AND c.fence = the_fence AND "
	return map[string]mutation{
		"complete without fence and owner":   {"end_attempt", "c.owner = the_owner AND c.fence = the_fence AND ", ""},
		"complete of an ended attempt":       {"end_attempt", "mine AND was_state = 1", "mine"},
		"end of an attempt not saved":        {"end_attempt", "SET state = new_state,", "SET state = state,"},
		"extend without fence and owner":     {"extend", holds, ""},
		"save_step without fence and owner":  {"save_step", holds, ""},
		"release without fence and owner":    {"release", holds, ""},
		"claim that decides before it locks": {"claim_record", "IF NOT (expired OR", "IF FALSE AND (expired OR"},
		"fence of a take-over too small":     {"claim_record", "GREATEST(r_fence + 1, time_read)", "r_fence"},
		"time of a claim too late":           {"claim_record", "SET time_read = {{late}};\n\t\t\tSET r_state", "SET time_read = {{late}} + 300000;\n\t\t\tSET r_state"},
	}
}

// breakProcedure replaces a procedure by one with a change. All processes of a mutant make the same one.
func breakProcedure(db *sql.DB, database string, m mutation) error {
	rest, err := changedProcedure(database, m)
	if err == nil {
		_, err = db.Exec("CREATE OR REPLACE PROCEDURE " + inDatabase("{{"+m.procedure+"}}", database) + " " + rest)
	}
	return err
}

// changedProcedure is what stands behind the name in the newest definition of a procedure, with a change.
func changedProcedure(database string, m mutation) (text string, err error) {
	all, err := Migrations(database)
	if err != nil {
		return "", err
	}
	name := inDatabase("{{"+m.procedure+"}}", database)
	for _, migration := range slices.Backward(all) {
		for _, statement := range slices.Backward(migration.statements()) {
			if _, after, is := strings.Cut(statement, "CREATE PROCEDURE "+name+" "); is {
				change := torture.Change{Text: &after, Old: inDatabase(m.old, database), Instead: inDatabase(m.instead, database)}
				err := torture.Mutation{change}.Apply()
				return after, err
			}
		}
	}
	return "", fmt.Errorf("there is no procedure %s", m.procedure)
}
