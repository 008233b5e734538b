package rpc

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	_ "modernc.org/sqlite" // the driver

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/shoppb"
	"github.com/retrysafe/retrysafe/stores/pgstore"
	"github.com/retrysafe/retrysafe/stores/sqlitestore"
)

// books is a store's database with a table of things.
type books struct {
	store retrysafe.Store
	// inTx inserts a thing and runs then, in one transaction with the completion.
	inTx func(ctx context.Context, then func(ctx context.Context) error) error
	rows func() (int, error)
}

const insertThing = "INSERT INTO things DEFAULT VALUES"

// databases returns the databases whose stores complete in the caller's transaction.
func databases() map[string]func(*testing.T) books {
	return map[string]func(*testing.T) books{"SQLite": sqliteBooks, "PostgreSQL": postgresBooks}
}

func sqliteBooks(t *testing.T) books {
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "shop.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	store, err := sqlitestore.New(db, sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	if _, err := db.Exec("CREATE TABLE things (id INTEGER PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	return books{store, func(ctx context.Context, then func(ctx context.Context) error) error {
		return store.InTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, insertThing)
			return errors.Join(err, then(ctx))
		})
	}, func() (n int, err error) { return n, db.QueryRow("SELECT count(*) FROM things").Scan(&n) }}
}

func postgresBooks(t *testing.T) books {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, postgres.Get(t).Database(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if _, err := pgstore.Migrate(ctx, pool, pgstore.MigrateOptions{}); err != nil {
		t.Fatal(err)
	}
	store, err := pgstore.New(ctx, pool, pgstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	if _, err := pool.Exec(ctx, "CREATE TABLE things (id bigserial PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	return books{store, func(ctx context.Context, then func(ctx context.Context) error) error {
		return store.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, insertThing)
			return errors.Join(err, then(ctx))
		})
	}, func() (n int, err error) { return n, pool.QueryRow(ctx, "SELECT count(*) FROM things").Scan(&n) }}
}

// inEach runs a test with each adapter on each database. The handler inserts a row, and then runs then.
func inEach(t *testing.T, test func(s *stand, b books)) {
	for name, open := range databases() {
		t.Run(name, func(t *testing.T) {
			behindBoth(t, func(s *stand) {
				b := open(s.T)
				s.store, s.policy.OnAbandoned = b.store, retrysafe.Rerun()
				test(s, b)
			})
		})
	}
}

func (b books) wantRows(t *testing.T, want int) {
	t.Helper()
	if got, err := b.rows(); err != nil || got != want {
		t.Errorf("%d rows, want %d, %v", got, want, err)
	}
}

// Seen to fail without Capture in newRun. An answer that the handler returns after the commit comes too late.
func TestAnswerIsSavedWithTheRows(t *testing.T) {
	inEach(t, func(s *stand, b books) {
		s.work = func(ctx context.Context) said {
			err := b.inTx(ctx, func(ctx context.Context) error {
				return errors.Join(s.setHeader(ctx, "location", "/things/1"), s.setReply(ctx, &shoppb.Thing{ThingId: "saved"}))
			})
			return said{status: status.Newf(codes.Internal, "a bug after the commit, %v", err).Proto()}
		}
		for i := range 2 {
			a := s.send("k")
			if a.err != nil || a.thing.ThingId != "saved" || a.replayed() != (i > 0) {
				s.Errorf("call %d: %+v", i, a)
			}
			if got := a.header["location"]; len(got) != 1 || got[0] != "/things/1" {
				s.Errorf("location %v", got)
			}
		}
		b.wantRows(s.T, 1)
		s.wantRuns(1)
	})
}

// An answer that was set in a rolled-back transaction is not the answer of the next one. Seen to fail with said kept
// by capture.
func TestWithoutSetReplyNothingIsCommitted(t *testing.T) {
	inEach(t, func(s *stand, b books) {
		s.work = func(ctx context.Context) said {
			first := b.inTx(ctx, func(ctx context.Context) error {
				return errors.Join(s.setReply(ctx, &shoppb.Thing{ThingId: "rolled back"}), errors.New("no money"))
			})
			second := b.inTx(ctx, func(context.Context) error { return nil })
			if first == nil || second == nil {
				s.Errorf("committed: %v, %v", first, second)
			}
			return said{status: status.New(codes.NotFound, "no such customer").Proto()}
		}
		for i := range 2 {
			if a := s.send("k"); status.Code(a.err) != codes.NotFound || a.replayed() != (i > 0) {
				s.Errorf("call %d: %+v", i, a)
			}
		}
		b.wantRows(s.T, 0)
		s.wantRuns(1)
	})
}
