package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
	"github.com/retrysafe/retrysafe/stores/internal/testkit"
)

// guarded runs work under a key, and returns what it returned.
func guarded(t *testing.T, s *Store, id string, f func(ctx context.Context, tx *sql.Tx) error) (failure error) {
	t.Helper()
	_ = testkit.Guarded(t, s, retrysafe.Key{ID: id}, func(ctx context.Context, _ *retrysafe.Attempt) error {
		failure = s.InTx(ctx, s.db, f)
		return retrysafe.Retryable(failure)
	})
	return failure
}

func stateOf(t *testing.T, s *Store, id string) retrysafe.State {
	t.Helper()
	found, err := s.Inspect(t.Context(), retrysafe.Key{ID: id}.Digest())
	if err != nil || len(found) == 0 {
		t.Fatalf("Inspect = %v, %v", found, err)
	}
	return found[0].State
}

// Statements that change tables commit: the transaction is over, and what was written stays. Seen to fail with RELEASE
// SAVEPOINT taken out of Intact, and with the case for its error.
func TestImplicitCommitsAreSeen(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	execute(t, s, "CREATE TABLE charges (id INT) ENGINE = InnoDB")
	for i, text := range []string{
		"CREATE TABLE one (id INT)", "ALTER TABLE charges ADD x INT", "TRUNCATE charges", "LOCK TABLES charges WRITE",
		"START TRANSACTION", "SET autocommit = 0; SET autocommit = 1",
	} {
		id := fmt.Sprint("k", i)
		failure := guarded(t, s, id, func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO charges (id) VALUES (1)")
			for part := range strings.SplitSeq(text, "; ") {
				_, ended := tx.ExecContext(ctx, part)
				err = errors.Join(err, ended)
			}
			return err
		})
		if !errors.Is(failure, storekit.ErrEndedInside) {
			t.Errorf("%s: InTx = %v, want that the transaction was ended", text, failure)
		}
		if got := stateOf(t, s, id); got != retrysafe.Pending {
			t.Errorf("%s: the record is %v, want it pending, to be abandoned", text, got)
		}
	}
}

// A deadlock rolls the whole transaction back, and what f writes after it would be committed by itself.
func TestIgnoredDeadlockIsSeen(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	execute(t, s, "CREATE TABLE charges (id INT PRIMARY KEY, n INT) ENGINE = InnoDB")
	execute(t, s, "INSERT INTO charges VALUES (1, 0), (2, 0)")
	failure := guarded(t, s, "k", func(ctx context.Context, tx *sql.Tx) error {
		other, err := s.db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = other.Rollback() }()
		for range 50 { // the transaction that has changed fewer rows is given up
			if _, err := other.ExecContext(ctx, "UPDATE charges SET n = n + 1 WHERE id = 2"); err != nil {
				return err
			}
		}
		if _, err := other.ExecContext(ctx, "INSERT INTO charges VALUES (3, 0), (4, 0), (5, 0), (6, 0)"); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "UPDATE charges SET n = n + 1 WHERE id = 1"); err != nil {
			return err
		}
		waits := make(chan error, 1)
		go func() {
			_, err := other.ExecContext(context.Background(), "UPDATE charges SET n = n + 1 WHERE id = 1")
			waits <- err
		}()
		eventually(t, "the other transaction waits", func() bool { return lockWaits(t, s) == 1 })
		_, err = tx.ExecContext(ctx, "UPDATE charges SET n = n + 1 WHERE id = 2")
		if errorNumber(err) != deadlock {
			t.Errorf("got %v, want a deadlock", err)
		}
		if err := <-waits; err != nil {
			t.Error(err)
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO charges VALUES (7, 0)") // is committed at once
		return err
	})
	if !errors.Is(failure, storekit.ErrEndedInside) {
		t.Errorf("InTx = %v, want that the transaction was ended", failure)
	}
	if n := value[int](t, s, "SELECT COUNT(*) FROM charges WHERE id = 7"); n != 1 {
		t.Errorf("%d rows after the deadlock, want the one that was committed", n)
	}
	if got := stateOf(t, s, "k"); got != retrysafe.Pending {
		t.Errorf("the record is %v, want it pending, to be abandoned", got)
	}
}

// When the answer to COMMIT is lost, the record says what has become of the transaction.
func TestLostCommitIsResolved(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	lost := errors.New("lost")
	l := acquire(t, s, "k")
	if err := s.resolve(t.Context(), l, lost); !errors.Is(err, lost) || !strings.Contains(err.Error(), "rolled back") {
		t.Errorf("of a transaction that was rolled back: %v, want that it was", err)
	}
	if err := complete(s, l); err != nil {
		t.Fatal(err)
	}
	if err := s.resolve(t.Context(), l, lost); err != nil {
		t.Errorf("of a transaction that was committed: %v", err)
	}
	l.Fence++
	if err := s.resolve(t.Context(), l, lost); !errors.Is(err, lost) || !strings.Contains(err.Error(), "gone") {
		t.Errorf("of an attempt without a record: %v, want that it cannot be known", err)
	}
}
