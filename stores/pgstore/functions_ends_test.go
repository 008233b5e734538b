package pgstore

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/retrysafe/retrysafe"
)

// storedOf is all that is stored of a key: its record but for what is of one claim, and its answer.
func storedOf(t *testing.T, s *Store, id string) string {
	t.Helper()
	return value[string](t, s, `SELECT concat_ws(' ', c.state, c.code, c.omitted, c.keep_replay, c.keep_key, c.keep_audit,
		c.sweep_at - c.ends_at / 60000000, c.ends_at - c.claimed_at BETWEEN 0 AND 60000000, r.keep_until - r.ended_at, r.meta, r.body)
		FROM {{schema}}.claims c LEFT JOIN {{schema}}.results r ON r.ended_at = c.ends_at AND r.k = c.k WHERE c.id = $1`, []byte(id))
}

// What end_http writes in one statement is what end_attempt writes: each form of the answer is stored the same both ways.
// With a keep that is as long as that of the claim end_http calls end_attempt.
//
// Seen to fail with greatest(c.keep_replay, c.keep_audit) changed to c.keep_replay in the statement of end_http, with another
// code there, with the blank left out of its Content-Type, and with time_read + 120000000 as the time of the end.
func TestUsualAnswersAreStoredLikeOthers(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	for i, call := range []string{
		"complete($1, '{\"a\": 1}'%s)", "complete($1, '{\"a\": 1}'::jsonb%s)", "complete($1, '\\x00ff'::bytea%s)", "complete($1, ''%s)",
		"complete($1, 'é', 201, content_type => 'text/plain'%s)", "complete($1, 'a', 399, content_type => NULL%s)",
		"complete($1, 'a', headers => ARRAY['Location: /a', 'x: é']%s)", "complete($1, 'a', headers => NULL%s)",
		"complete($1, repeat('a', 16777216)%s)",
		"fail($1, '{\"a\": 1}'%s)", "fail($1, '{\"a\": 1}'::jsonb, 599%s)", "fail($1, '\\x00ff'::bytea, 400, '', ARRAY['A: b']%s)",
	} {
		stored := map[string]string{}
		for way, keep := range map[string]string{"usual": "", "other": ", keep => '2 days'"} {
			id := fmt.Sprint(way, " ", i)
			lease := one[string](t, s.pool, "SELECT lease FROM retrysafe.claim('', $1, keep => '2 days', keep_audit => '3 days')", id)
			if err := inBlock(t, s.pool, "SELECT retrysafe."+fmt.Sprintf(call, keep), lease); err != nil {
				t.Fatalf("%s: %v", call, err)
			}
			stored[way] = storedOf(t, s, id)
		}
		if stored["usual"] != stored["other"] || len(stored["usual"]) < 20 {
			t.Errorf("%s: stored %.300q, and by end_attempt %.300q", call, stored["usual"], stored["other"])
		}
	}
}

// A usual answer is written by end_http itself. Whatever is not usual, such as a key that another attempt holds or a record
// that has expired, is left to end_attempt, which stops working in this test.
//
// Seen to fail with each condition of end_http's first IF taken out, but those that TestCompleteNeedsATransaction and
// TestFunctionsWaitForTheDisk see; with the IF never true; with the fence or the expiry taken out of its WHERE (another
// owner has another fence); and with a sweep_at that always changes.
func TestUsualAnswersTakeOneStatement(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	execute(t, s, `CREATE OR REPLACE FUNCTION {{schema}}.end_attempt(lease text, verb text, new_state smallint, new_code integer, new_omitted boolean,
		new_meta bytea, new_body bytea, new_replay bigint, new_key bigint, new_audit bigint) RETURNS void LANGUAGE plpgsql AS
		$$ BEGIN RAISE EXCEPTION 'end_attempt' USING ERRCODE = 'RSEND'; END $$`)
	execute(t, s, "CREATE TABLE charges (id text)")
	claim := func() string {
		return one[string](t, s.pool, "SELECT lease FROM retrysafe.claim('', gen_random_uuid()::text)")
	}
	last, taken := claim(), one[string](t, s.pool, "SELECT lease FROM retrysafe.claim('', 'taken')")
	const mine = "SELECT lease FROM retrysafe.claim('', 'mine', owner => '00000000-0000-4000-8000-000000000001')"
	before := one[string](t, s.pool, mine)
	for text, lease := range map[string]string{"SELECT retrysafe.extend($1, '0')": taken, "SELECT retrysafe.release($1)": before} {
		if err := inBlock(t, s.pool, text, lease); err != nil {
			t.Fatal(err)
		}
	}
	next, after := one[string](t, s.pool, "SELECT lease FROM retrysafe.claim('', 'taken', take_over => true)"), one[string](t, s.pool, mine)
	expired := one[string](t, s.pool, "SELECT lease FROM retrysafe.claim('', 'expired', lease_for => '1 us', keep => '1 us')")
	for _, c := range []struct{ call, lease, state string }{
		{"complete($1, '{}', 201)", claim(), ""},
		{"complete($1, '{}'::jsonb)", claim(), ""},
		{"complete($1, '{}'::bytea)", claim(), ""},
		{"complete($1, '', headers => ARRAY['A: b'])", claim(), ""},
		{"fail($1, '{}')", claim(), ""},
		{"fail($1, '{}'::jsonb, 599)", claim(), ""},
		{"complete($1, '')", taken, "RSEND"},  // another owner has the key
		{"complete($1, '')", before, "RSEND"}, // the same owner has claimed it again
		{"complete($1, '')", expired, "RSEND"},
		{"complete($1, '')", next, ""},
		{"complete($1, '')", next, "RSEND"},
		{"complete($1, '')", after, ""},
		{"complete($1, '', keep => '1 hour')", claim(), "RSEND"},
		{"complete($1, '')", retrysafe.Lease{Key: retrysafe.Key{ID: "never"}, Owner: retrysafe.NewOwner(), Fence: 1}.Token(), "RSEND"},
		{"complete($1, '')", "v1.", "RSEND"},
		{"complete($1, repeat('a', 16777217))", claim(), "RS006"},
		{"complete($1, '', 400)", claim(), "RS006"},
		{"fail($1, '', 600)", claim(), "RS006"},
	} {
		err := inBlock(t, s.pool, "SELECT retrysafe."+c.call, c.lease)
		if state, said := refusalOf(err); state != c.state || err != nil && c.state == "" {
			t.Errorf("%s: got %s %s, want %q", c.call, state, said, c.state)
		}
	}
	const minute = "SELECT sweep_at FROM {{schema}}.claims WHERE id = 'hot'"
	hot := one[string](t, s.pool, "SELECT lease FROM retrysafe.claim('', 'hot')")
	claimed := value[int](t, s, minute)
	if err := inBlock(t, s.pool, "SELECT retrysafe.complete($1, '')", hot); err != nil || value[int](t, s, minute) != claimed {
		t.Errorf("the completion has written an index: %v", err)
	}
	execute(t, s, "DROP TABLE {{schema}}."+dayOf(t, s, 0))
	err := inBlock(t, s.pool, "SELECT retrysafe.complete($1, '')", last)
	if state, said := refusalOf(err); state != "RSEND" {
		t.Errorf("without the partition of the day: got %s %s, want that end_attempt makes it", state, said)
	}
}

// The work and its completion in one statement, as docs/sql-functions.md shows it: it commits by itself, returns the
// answer, and refuses what complete refuses. If the work changes no row, complete is not called, and the key stays taken.
//
// Seen to fail with has_written taken out of end_attempt: the statement whose complete does not read from the work is
// accepted before the work is done.
func TestOneStatement(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	execute(t, s, "CREATE TABLE charges (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer text UNIQUE DEFERRABLE INITIALLY DEFERRED, amount bigint CHECK (amount > 0))")
	const statement = `WITH charge AS (
			INSERT INTO charges (customer, amount) VALUES ($2::text, $3) RETURNING jsonb_build_object('id', id, 'amount', amount)::text AS answer
		) SELECT answer, retrysafe.complete($1, answer, 201)::text FROM charge`
	claim := func(id string) string { return one[string](t, s.pool, "SELECT lease FROM retrysafe.claim('', $1)", id) }
	charges := func(customer string) int {
		return one[int](t, s.pool, "SELECT count(*) FROM charges WHERE customer = $1", customer)
	}
	verdict := func(id string) string {
		return one[string](t, s.pool, "SELECT verdict || coalesce(' ' || code || ' ' || convert_from(body, 'UTF8'), '') FROM retrysafe.claim('', $1)", id)
	}
	alice := claim("alice")
	var answer, void string
	if err := s.pool.QueryRow(t.Context(), statement, alice, "alice", 10).Scan(&answer, &void); err != nil {
		t.Fatal(err)
	}
	if got := verdict("alice"); got != "done 201 "+answer || answer != `{"id": 1, "amount": 10}` || charges("alice") != 1 {
		t.Errorf("the statement returned %s, and claim says %s", answer, got)
	}

	taken := claim("taken")
	if err := inBlock(t, s.pool, "SELECT retrysafe.extend($1, '0')", taken); err != nil {
		t.Fatal(err)
	}
	next := one[string](t, s.pool, "SELECT lease FROM retrysafe.claim('', 'taken', take_over => true)")
	for _, c := range []struct {
		what, text, lease, customer, state string
		amount                             int
	}{
		{"again", statement, alice, "again", "RS004", 10},
		{"a lost lease", statement, taken, "lost", "RS001", 10},
		{"no lease", statement, "x", "none", "RS002", 10},
		{"a deferred constraint", statement, next, "alice", "23505", 10},
		{"a constraint", statement, next, "constraint", "23514", 0},
		{"complete does not read from the work", `WITH charge AS (INSERT INTO charges (customer, amount) VALUES ($2::text, $3))
			SELECT '{}', retrysafe.complete($1, '{}')::text`, next, "apart", "RS005", 10},
		{"two rows, two answers", `WITH charge AS (INSERT INTO charges (customer, amount) VALUES ($2::text, $3), ($2 || '2', $3) RETURNING id::text)
			SELECT '{}', retrysafe.complete($1, id)::text FROM charge`, next, "two", "RS004", 10},
		{"no row, and an aggregate", `WITH charge AS (INSERT INTO charges (customer, amount) SELECT $2::text, $3 WHERE false RETURNING id)
			SELECT '{}', retrysafe.complete($1, coalesce(jsonb_agg(id), '[]'))::text FROM charge`, next, "aggregate", "RS005", 10},
	} {
		before := charges(c.customer)
		err := s.pool.QueryRow(t.Context(), c.text, c.lease, c.customer, c.amount).Scan(&answer, &void)
		if state, said := refusalOf(err); state != c.state {
			t.Errorf("%s: got %s %s, want %s", c.what, state, said, c.state)
		}
		if n := charges(c.customer); n != before {
			t.Errorf("%s: %d charges, there were %d", c.what, n, before)
		}
	}

	// Nothing is written, so nothing is completed, and the service may still answer with a failure that every retry gets.
	tag, err := s.pool.Exec(t.Context(), `WITH charge AS (UPDATE charges SET amount = amount + 1 WHERE customer = $2::text RETURNING '{}' AS answer)
		SELECT answer, retrysafe.complete($1, answer, 201)::text FROM charge`, next, "nobody")
	if err != nil || tag.RowsAffected() != 0 {
		t.Errorf("an UPDATE that finds no row: %d rows, %v", tag.RowsAffected(), err)
	}
	if got := verdict("taken"); got != "in_flight" {
		t.Errorf("after that the key is %s", got)
	}
	if err := alone(t, s, "SELECT retrysafe.hold($1), retrysafe.fail($1, '{}', 409)", next); err != nil {
		t.Error(err)
	}
	if got := verdict("taken"); got != "done 409 {}" {
		t.Errorf("after fail the key is %s", got)
	}

	returning := claim("returning")
	if err := alone(t, s, "INSERT INTO charges (customer, amount) VALUES ('bob', 1) RETURNING retrysafe.complete($1, id::text)", returning); err != nil {
		t.Error(err)
	}
	if got := verdict("returning"); !strings.HasPrefix(got, "done 200 ") || charges("bob") != 1 {
		t.Errorf("with complete in RETURNING the key is %s", got)
	}
}

// alone executes a statement as a transaction of its own.
func alone(t *testing.T, s *Store, text string, args ...any) error {
	t.Helper()
	_, err := s.pool.Exec(t.Context(), text, args...)
	return err
}

// The statement of end_http notifies when it commits, and only if a caller waits.
//
// Seen to fail with pg_notify taken out of end_http, and with its condition made true.
func TestUsualAnswersNotifyThoseWhoWait(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	quiet, watched := acquire(t, s, "quiet"), acquire(t, s, "watched")
	changed := watch(t, s, watched.Key)
	listener, err := pgx.Connect(t.Context(), s.pool.Config().ConnString())
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close(context.WithoutCancel(t.Context()))
	if _, err := listener.Exec(t.Context(), "LISTEN "+channel(s.options.Schema)); err != nil {
		t.Fatal(err)
	}
	for _, l := range []retrysafe.Lease{quiet, watched} {
		if err := inBlock(t, s.pool, "SELECT retrysafe.complete($1, '')", l.Token()); err != nil {
			t.Fatal(err)
		}
	}
	woken(t, changed)
	for d, n := watched.Key.Digest(), (*pgconn.Notification)(nil); n == nil || strings.HasPrefix(n.Payload, "check"); {
		if n, err = listener.WaitForNotification(t.Context()); err != nil {
			t.Fatal(err)
		} else if got := strings.ReplaceAll(n.Payload, "-", ""); got != d.String() && !strings.HasPrefix(n.Payload, "check") {
			t.Errorf("the first notification is of %s, want that of the key that is watched, %s", got, d)
		}
	}
}
