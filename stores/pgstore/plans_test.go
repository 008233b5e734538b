package pgstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/retrysafe/retrysafe"
)

// bad is what makes a batch cost more the more records there are.
var bad = regexp.MustCompile(`Seq Scan on|Hash Join|Merge Join|Bitmap`)

// batchStatements are those of which every call is made.
func batchStatements(q *statements) map[string]statement {
	all := make(map[string]statement)
	for i, st := range q.steps {
		all[stepNames[i]] = st
	}
	return all
}

// planned is how a plan comes about.
type planned struct {
	mode    string // plan_cache_mode
	guarded bool
	search  bool // with the settings of a search
}

// plan returns what the server would do.
func plan(t *testing.T, s *Store, text string, how planned, args ...string) string {
	t.Helper()
	ctx := context.Background()
	var lines []string
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		prepare := "SET LOCAL plan_cache_mode = " + how.mode + ";"
		if how.guarded {
			prepare += strings.TrimSpace(strings.ReplaceAll(s.sql.plannerSettings, "$1", "NULL")) + ";"
		}
		if how.search {
			prepare += strings.TrimSpace(strings.ReplaceAll(s.sql.searchSettings, "$1", "'0'")) + ";"
		}
		if _, err := tx.Exec(ctx, prepare+"PREPARE p AS "+text, pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
		call := "EXECUTE p"
		if args = append(args, nulls(text, len(args))...); len(args) > 0 {
			call += "(" + strings.Join(args, ", ") + ")"
		}
		rows, err := tx.Query(ctx, "EXPLAIN "+call, pgx.QueryExecModeSimpleProtocol)
		if err != nil {
			return err
		}
		if lines, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "DEALLOCATE p")
		return err
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return strings.Join(lines, "\n")
}

// nulls are values for the parameters of a statement after the first n.
func nulls(text string, n int) (values []string) {
	for strings.Contains(text, fmt.Sprintf("$%d", n+1)) {
		values, n = append(values, "NULL"), n+1
	}
	return values
}

// checkPlans looks at both forms of all statements of batches.
func checkPlans(t *testing.T, s *Store) {
	t.Helper()
	for name, q := range batchStatements(s.sql) {
		for what, got := range map[string]string{
			"many rows":              plan(t, s, q.many, planned{mode: "force_generic_plan", guarded: true}),
			"many rows, values seen": plan(t, s, q.many, planned{mode: "force_custom_plan", guarded: true}),
			"one row":                plan(t, s, q.one, planned{mode: "force_generic_plan", guarded: true}),
		} {
			if bad.MatchString(got) {
				t.Errorf("%s of %s:\n%s", name, what, got)
			}
		}
	}
}

// Without the guard this very server scans tables, if there are many rows while they are new, and if there is one once
// they have been analysed while empty: the tests below are not idle.
func TestPlansWithoutGuard(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	unguarded := func(when string, form func(statement) string) {
		var scans []string
		for name, q := range batchStatements(s.sql) {
			if bad.MatchString(plan(t, s, form(q), planned{mode: "force_generic_plan"})) {
				scans = append(scans, name)
			}
		}
		if len(scans) == 0 {
			t.Errorf("without the guard no statement scans tables %s", when)
		}
		t.Logf("without the guard tables %s are scanned by %v", when, scans)
	}
	unguarded("that were never analysed", func(q statement) string { return q.many })
	execute(t, s, "ANALYZE")
	unguarded("that were analysed while empty", func(q statement) string { return q.one })
}

// Seen to fail with planner_settings.sql emptied: complete, extend, look and others scan tables.
func TestPlansOnFreshTables(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	checkPlans(t, s)
	execute(t, s, "ANALYZE") // they are empty, and what is planned now is kept
	checkPlans(t, s)
}

// The plans that the server has really used, those that connections have cached included.
// Seen to fail with the guard left out of pipeline, and with the guard only for several rows.
func TestNothingIsScanned(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	execute(t, s, "ANALYZE")
	before := scans(t, s)
	for range 10 {
		callEverything(t, s, 1)
	}
	for range 3 {
		callEverything(t, s, 40)
	}
	checkScans(t, s, before)
}

func checkScans(t *testing.T, s *Store, before map[string]int) {
	t.Helper()
	for table, n := range scans(t, s) {
		if n > before[table] {
			t.Errorf("table %s was read from end to end %d times", table, n-before[table])
		}
	}
}

// A plan that a transaction of the user's has left on a connection is there for batches too.
// Seen to fail with the planner settings left out of sharedTx.Complete.
func TestNothingIsScannedInTx(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, b business) {
		execute(t, b.Store, "ANALYZE")
		before := scans(t, b.Store)
		for i := range 10 {
			err := b.guardedAt(t, fmt.Sprint("key ", i), func(ctx context.Context, _ *retrysafe.Attempt) error {
				_, err := retrysafe.Step(ctx, "step", func(context.Context, string) (int, error) { return i, nil })
				return errors.Join(err, b.charge(ctx))
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if b.db != nil {
			b.db.Close() // so that what its connections have counted is known
		}
		checkScans(t, b.Store, before)
	})
}

// What needs no guard needs none whatever is known of the tables; that claims are many is learnt from the claims
// themselves.
func TestGuardIsLeftOutForOne(t *testing.T) {
	t.Parallel()
	s := openOneWorker(t)
	execute(t, s, "ANALYZE")
	if s.grown.Load() {
		t.Fatal("an empty table is taken for a large one")
	}
	const pages = "SELECT pg_relation_size('{{schema}}.claims') / 8192"
	for n := 0; !s.grown.Load(); n++ {
		if size := value[int](t, s, pages); size > manyPages+1 {
			t.Fatalf("%d pages, and the store has not noticed", size)
		}
		together(t, 200, func(i int) error {
			_, err := s.Claim(context.Background(), params(fmt.Sprint(n, " ", i)))
			return err
		})
	}
	if size := value[int](t, s, pages); size <= manyPages {
		t.Errorf("%d pages are taken for more than %d", size, manyPages)
	}
	execute(t, s, "ANALYZE")
	before := scans(t, s)
	for range 10 {
		lease := acquire(t, s, rand.Text())
		if err := complete(s, lease); err != nil {
			t.Fatal(err)
		}
	}
	checkScans(t, s, before)
}

// scans is how often tables have been read from end to end.
func scans(t *testing.T, s *Store) map[string]int {
	t.Helper()
	settleCounts(t, s)
	rows, err := s.pool.Query(context.Background(),
		"SELECT relname, seq_scan FROM pg_stat_user_tables WHERE schemaname = $1 AND relname ~ "+
			"'^(claims|older|steps|results.*)$'", s.options.Schema)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	var table string
	var n int
	if _, err := pgx.ForEachRow(rows, []any{&table, &n}, func() error { counts[table] = n; return nil }); err != nil {
		t.Fatal(err)
	}
	return counts
}

// A million records are no reason to look at more than the rows asked for, and at what is due; neither are statistics
// that are missing, or that are there. Seen to fail with sweep_at <= taken out of sweep_claims.sql, and without the
// guard.
func TestPlansOnLargeTables(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	fill(t, s, 1_000_000)
	t.Run("never analysed", func(t *testing.T) {
		checkPlans(t, s)
		checkCleaning(t, s, planned{mode: "force_custom_plan", guarded: true})
	})
	execute(t, s, "ANALYZE")
	t.Run("analysed", func(t *testing.T) {
		checkPlans(t, s)
		for _, mode := range []string{"force_generic_plan", "force_custom_plan"} {
			checkCleaning(t, s, planned{mode: mode, guarded: true})
		}
	})
}

// fill adds n records, which autovacuum does not analyse.
func fill(t *testing.T, s *Store, n int) {
	t.Helper()
	for _, table := range []string{"claims", "older"} {
		execute(t, s, `ALTER TABLE {{schema}}.`+table+` SET (autovacuum_enabled = false)`)
		execute(t, s, `ALTER TABLE {{schema}}.`+table+` SET UNLOGGED`) // which is faster
	}
	const columns = `lpad(to_hex(i), 32, '0')::uuid, md5('owner')::uuid, t + i, t + i, t, t + 86400000000, 0, 86400000000, 0,
		(t / 60000000 + 2880 + i / 1000)::integer, 1, 0, 0, 3, false, false, false, 'raw1:one', 'tenant', i::text::bytea
		FROM (SELECT {{schema}}.clock()) c (t), `
	execute(t, s, `INSERT INTO {{schema}}.claims SELECT `+columns+`generate_series(1, $1::integer) i`, n)
	execute(t, s, `INSERT INTO {{schema}}.older SELECT `+columns+`generate_series(1, $1::integer) i`, n/20)
}

// dueOnly is how an index is asked for what is due.
var dueOnly = regexp.MustCompile(`Index Cond: .*sweep_at <= `)

// checkCleaning looks at the statements that find what is new or due.
func checkCleaning(t *testing.T, s *Store, how planned) {
	t.Helper()
	for _, c := range []struct {
		name, text string
		args       []string
		uses       []string
	}{
		{
			"search.sql", s.sql.searchAll,
			[]string{"9223372036854775807", "0::smallint", "NULL", "100", "0", "9223372036854776", "''"},
			[]string{"claims_first", "older_first"},
		},
		{"sweep_claims.sql", s.sql.sweepClaims, []string{"1000", "0"}, []string{"claims_sweep"}},
		{"sweep_older.sql", s.sql.sweepOlder, []string{"1000"}, []string{"older_sweep"}},
	} {
		got := plan(t, s, c.text, how, c.args...)
		if bad.MatchString(got) {
			t.Errorf("%s, %s, scans:\n%s", c.name, how.mode, got)
		}
		if strings.HasPrefix(c.name, "sweep") && !dueOnly.MatchString(got) {
			t.Errorf("%s, %s, walks records that are not due:\n%s", c.name, how.mode, got)
		}
		for _, index := range c.uses {
			if !strings.Contains(got, index) {
				t.Errorf("%s, %s, does not use %s:\n%s", c.name, how.mode, index, got)
			}
		}
	}
}
