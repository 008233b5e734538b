package mysqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// Every statement that locks or changes rows finds them by the primary key, also if it is about all rows of a small
// table: otherwise it would lock rows of others, and wait for them. Seen to fail with a DELETE of many rows, and with
// one that could use the index of first_fence.
func TestPlans(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	completeMany(t, s, 40)
	execute(t, s, "INSERT INTO {{older}} (k, owner, fence, first_fence, claimed_at, ends_at, keep_replay, "+
		"keep_key, keep_audit, sweep_at, attempt, steps, code, state, omitted, fingerprint, scope, id) "+
		"SELECT k, owner, fence, first_fence, claimed_at, ends_at, keep_replay, keep_key, "+
		"keep_audit, sweep_at, attempt, steps, code, state, omitted, fingerprint, scope, id FROM {{claims}}")
	execute(t, s, "INSERT INTO {{steps}} SELECT k, first_fence, k, 1, 'name', 'data' FROM {{claims}}")
	var pairs, keys, owned, answers rows
	selected, err := s.db.Query(inDatabase("SELECT k, owner, fence, first_fence, ends_at FROM {{claims}}", s.options.Database))
	err = readRows(selected, err, func(row *sql.Rows) error {
		var k, owner []byte
		var fence, first, ended int64
		err := row.Scan(&k, &owner, &fence, &first, &ended)
		keys, pairs = append(keys, []any{k}), append(pairs, []any{k, first})
		owned, answers = append(owned, []any{k, owner, fence}), append(answers, []any{ended, k})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]rows{
		"lock": keys, "find": keys, "look": keys, "archive": keys, "purgeOlder": keys,
		"stateOf": owned, "dropResults": answers,
		"dropSteps": pairs, "purgeSteps": pairs, "deleteClaims": pairs, "deleteOlder": pairs, "countOlder": pairs,
		"sweepClaims": pairs, "sweepOlder": pairs,
	} {
		st := (*statement)(reflect.ValueOf(s.sql).Elem().FieldByName(name).UnsafePointer())
		for _, n := range []int{1, len(r)} {
			if st.alone {
				n = 1
			}
			for _, used := range plan(t, s, st.literal(r[:n])) {
				if !slices.Contains([]string{"range PRIMARY", "const PRIMARY", "eq_ref PRIMARY", "ref PRIMARY"}, used) {
					t.Errorf("%s of %d rows: the plan is %q, want the primary key", name, n, used)
				}
			}
		}
	}
}

// plan is how the server finds the rows of each table: the kind of search, and the index.
func plan(t *testing.T, s *Store, text string) (used []string) {
	t.Helper()
	selected, err := s.db.QueryContext(context.Background(), "EXPLAIN "+text)
	err = readRows(selected, err, func(row *sql.Rows) error {
		columns, err := row.Columns()
		if err != nil {
			return err
		}
		values := make([]sql.NullString, len(columns))
		to := make([]any, len(columns))
		for i := range values {
			to[i] = &values[i]
		}
		if err := row.Scan(to...); err != nil {
			return err
		}
		field := func(name string) string { return values[slices.Index(columns, name)].String }
		if field("table") != "" || !strings.Contains(field("Extra"), "const table") {
			used = append(used, fmt.Sprint(field("type"), " ", field("key")))
		}
		return nil
	})
	if err != nil {
		t.Fatalf("EXPLAIN %s: %v", text, err)
	}
	return used
}
