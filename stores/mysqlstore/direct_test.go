package mysqlstore

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
)

// A call that is alone in its batch and meets the usual case is one statement, and so one round trip. Seen to fail with
// tryDirect returning false: Extend, Complete and Release then send 4, 5 and 4.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	s := openAt(t, shared.Get(t).Database(t), Options{Connections: 1})
	ctx := context.Background()
	if err := errors.Join(complete(s, acquire(t, s, "a")), s.Release(ctx, acquire(t, s, "b"))); err != nil {
		t.Fatal(err) // these have prepared the statements
	}
	if err := s.Extend(ctx, acquire(t, s, "c"), time.Minute); err != nil {
		t.Fatal(err)
	}
	var l retrysafe.Lease
	for _, call := range []struct {
		name string
		f    func() error
	}{
		{"Claim", func() error { l = acquire(t, s, "k"); return nil }},
		{"Extend", func() error { return s.Extend(ctx, l, time.Minute) }},
		{"Complete", func() error { return complete(s, l) }},
		{"Claim of another key", func() error { l = acquire(t, s, "another"); return nil }},
		{"Release", func() error { return s.Release(ctx, l) }},
	} {
		before := questions(t, s)
		if err := call.f(); err != nil {
			t.Fatalf("%s: %v", call.name, err)
		}
		if n := questions(t, s) - before - 1; n != 1 { // the counter counts the statement that reads it
			t.Errorf("%s has sent %d statements, want 1", call.name, n)
		}
	}
}

// questions is how many statements the only connection of a store has sent.
func questions(t *testing.T, s *Store) (n int) {
	t.Helper()
	err := s.read(context.Background(), func(c *conn) error {
		return c.QueryRowContext(context.Background(), "SHOW SESSION STATUS LIKE 'Questions'").Scan(new(string), &n)
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A completion whose direct statement fails takes the usual way: there is no procedure, or no partition of today. Seen
// to fail with the errors of tryDirect returned.
func TestDirectFailureTakesTheUsualWay(t *testing.T) {
	t.Parallel()
	s := openAt(t, shared.Get(t).Database(t), Options{Connections: 1})
	for _, text := range []string{
		"SET @nothing = 0",
		"ALTER TABLE {{results}} DROP PARTITION " + strings.Join(partitions(t, s)[1:], ", "),
		"DROP PROCEDURE {{complete}}",
	} {
		l := acquire(t, s, text)
		execute(t, s, text)
		if err := complete(s, l); err != nil {
			t.Errorf("after %s: %v", text, err)
		}
		if err := wantVerdict(s, params(text), retrysafe.Done); err != nil {
			t.Errorf("after %s: %v", text, err)
		}
	}
}

// A transaction that a direct statement has left open is rolled back, and not committed by the usual way. Seen to fail
// without the ROLLBACK of tryDirect.
func TestInterruptedProcedureIsRolledBack(t *testing.T) {
	t.Parallel()
	s := openAt(t, shared.Get(t).Database(t), Options{Connections: 1})
	l, other := acquire(t, s, "k"), acquire(t, s, "other")
	if err := s.read(context.Background(), func(c *conn) error {
		_, err := c.ExecContext(context.Background(), "START TRANSACTION")
		if err == nil {
			_, err = c.ExecContext(context.Background(), inDatabase("DELETE FROM {{claims}}", s.options.Database))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	s.sql.complete.parts[0] = "CALL there_is_none ("
	if err := complete(s, l); err != nil {
		t.Errorf("Complete = %v", err)
	}
	if err := s.Extend(context.Background(), other, time.Minute); err != nil {
		t.Errorf("another key: %v", err)
	}
}
