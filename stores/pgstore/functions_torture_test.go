package pgstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/soak"
	"github.com/retrysafe/retrysafe/internal/testing/sqlfunctions"
	"github.com/retrysafe/retrysafe/internal/testing/torture"
)

// Services in several processes, which call the functions as a role that has nothing but the grants.
// What it would see: TestSoakFunctionsMutants.
func TestSoakFunctionsTorture(t *testing.T) {
	t.Parallel()
	for _, s := range settings(soak.Times(t, 1) > 1) {
		t.Run(s.String(), func(t *testing.T) {
			torturedFunctions(s).Torture(t, soak.Times(t, 8))
		})
	}
}

func TestSoakFunctionsMutants(t *testing.T) {
	torturedFunctions(setting{isolation: "read committed"}).SeesMutants(t, soak.Times(t, 1))
}

func TestSoakFunctionsRace(t *testing.T) {
	t.Parallel()
	for _, s := range settings(soak.Times(t, 1) > 1) {
		t.Run(s.String(), func(t *testing.T) {
			torturedFunctions(s).Race(t, soak.Times(t, 64))
		})
	}
}

// servicePlace is two URLs: of a role with the grants of a service, and of the owner, who sweeps and breaks functions.
func (s setting) servicePlace(t *testing.T) string {
	direct, through := s.place(t)
	role, _ := stranger(t, direct, "service")
	grants, err := ServiceGrants("", role)
	if err != nil {
		t.Fatal(err)
	}
	shared.Get(t).PsqlAt(t, direct, grants)
	return as(t, through, role) + " " + direct
}

// torturedFunctions is the functions, called in several processes.
func torturedFunctions(s setting) torture.Subject {
	return torture.Subject{
		Name:           "functions",
		Place:          s.servicePlace,
		Open:           openTortured,
		Mutants:        torture.Names(functionMutations),
		RaceMutants:    []string{"claim without lease"},
		FencesAreClock: true,
		// Only the server can say that a call was refused. A context that ends while a connection is made is another matter.
		Unsure: func(err error) bool { return sqlState(err) == "" },
	}
}

func openTortured(ctx context.Context, place, mutant string) (retrysafe.Store, error) {
	service, owner, _ := strings.Cut(place, " ")
	pool, err := pgxpool.New(ctx, owner)
	if err != nil {
		return nil, err
	}
	programs, err := New(ctx, pool, Options{})
	if err != nil {
		return nil, err
	}
	if mutant != "" {
		if err := breakFunction(ctx, pool, functionMutations[mutant]); err != nil {
			return nil, fmt.Errorf("%s: %w", mutant, err)
		}
	}
	db, err := sql.Open("pgx", service)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(8)
	db.SetMaxIdleConns(8)
	calls := &sqlfunctions.Store{DB: db, Schema: defaultSchema, NoCancel: strings.HasSuffix(service, forBouncer)}
	return struct {
		*sqlfunctions.Store
		retrysafe.Sweeper
	}{calls, programs}, nil
}

// functionMutation is changes of the text of a function. Each takes a condition out of it.
type functionMutation struct {
	function string
	changes  []string // what stands there and what is to stand there instead, in turn
}

const (
	holds    = "c.k = l.k AND c.fence = l.fence AND c.owner = l.owner AND c.state = 1"
	holdsKey = "c.k = l.k AND c.state = 1"

	// in the statement of end_http
	ends = "AND c.owner = substring(token FROM 33 FOR 32)::uuid\n" +
		"\t\t\t\tAND c.fence = ('x' || right(token, 16))::bit(64)::bigint AND c.state = 1"
	endsKey   = "AND c.state = 1"
	endsOwner = "AND c.owner = substring(token FROM 33 FOR 32)::uuid AND c.state = 1"
)

var functionMutations = map[string]functionMutation{
	"complete without fence":             {"end_http", []string{ends, endsOwner}},
	"complete without fence and owner":   {"end_http", []string{ends, endsKey}},
	"extend without fence and owner":     {"extend", []string{holds, holdsKey}},
	"release without fence and owner":    {"release", []string{holds, holdsKey}},
	"checkpoint without fence and owner": {"save_step", []string{holds, holdsKey}},
	"checkpoint that saves one step": {"save_step", []string{
		"VALUES (l.k, held.first_fence, held.steps, convert_to(save_step.name, 'UTF8'), save_step.data)",
		"SELECT l.k, held.first_fence, held.steps, convert_to(save_step.name, 'UTF8'), save_step.data WHERE held.steps < 2",
	}},
	"claim without lease": {"claim_record", []string{
		"r.state = 1 AND r.ends_at > time_read THEN 'in_flight'", "false THEN 'in_flight'",
		"x.state = 1 AND x.ends_at <= time_read AND take", "x.state = 1 AND take",
	}},
	"claim of a key that has not expired": {"claim_record", []string{
		"keep_key <= time_read", "keep_key <= time_read + 200000",
	}},
}

// breakFunction replaces a function, all of its overloads, unless another process has.
func breakFunction(ctx context.Context, pool *pgxpool.Pool, m functionMutation) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		const texts = "SELECT pg_get_functiondef(oid) FROM pg_proc, (SELECT pg_advisory_xact_lock(1)) l " +
			"WHERE pronamespace = 'retrysafe'::regnamespace AND proname = $1"
		rows, err := tx.Query(ctx, texts, m.function)
		if err != nil {
			return err
		}
		all, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		broken := 0
		for _, text := range all {
			if strings.Contains(text, brokenMark) {
				return nil
			}
			for i := 0; i < len(m.changes); i += 2 {
				if strings.Contains(text, m.changes[i]) {
					text = strings.ReplaceAll(text, m.changes[i], m.changes[i+1]+brokenMark)
					broken++
				}
			}
			if _, err := tx.Exec(ctx, text, pgx.QueryExecModeSimpleProtocol); err != nil {
				return err
			}
		}
		if broken != len(m.changes)/2 {
			return errors.New("the function does not say that")
		}
		return nil
	})
}

// brokenMark marks what has been broken.
const brokenMark = " /* broken */ "
