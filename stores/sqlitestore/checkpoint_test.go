package sqlitestore

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
)

// largeBody makes two records fill a hundred pages of the log.
var largeBody = make([]byte, 200<<10)

// logSize returns how many pages the log of a store has, and how many of them are not in the file.
func logSize(t *testing.T, s *Store) (all, left int64) {
	t.Helper()
	all, left, err := s.onReader(t.Context(), "log_size")
	if err != nil {
		t.Fatal(err)
	}
	return all, left
}

// emptied waits until the whole log is in the file.
func emptied(t *testing.T, s *Store) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		all, left := logSize(t, s)
		if left == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d of %d pages of the log are not in the file", left, all)
		}
	}
}

// withLongLog fills a store while its checkpointer waits, and returns the function that lets it go on.
func withLongLog(t *testing.T, s *Store) (open func()) {
	t.Helper()
	var all []*reader
	for range cap(s.readers.free) {
		all = append(all, <-s.readers.free)
	}
	fill(t, s, 2*checkpointPages/(len(largeBody)>>12), largeBody)
	return func() {
		for _, r := range all {
			s.readers.free <- r
		}
	}
}

// No commit copies pages of the log into the file: all callers would wait for it. The checkpointer does, and the log
// begins anew. Seen to fail with wal_autocheckpoint = checkpointPages, and without the checkpoint on the writer.
func TestCommitsDoNotCopyTheLog(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	open := withLongLog(t, s)
	back := gate(t, s)
	err := s.writer.conn.Raw(func(any) error {
		row, err := s.writer.run.first("log_size")
		if err == nil && row[2] != int64(0) {
			t.Errorf("commits have copied %d pages", row[2])
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	back()
	open()
	emptied(t, s)
	// It goes on instead while a sweep reads from it.
	for end := time.Now().Add(time.Minute); ; {
		if err := pair(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		all, _ := logSize(t, s)
		if all < checkpointPages {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the log goes on after %d pages", all)
		}
	}
}

// The log does not grow with what is written. Seen to fail with checkpointer.saved doing nothing.
func TestTheLogStaysSmall(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	if err := s.sweeper.pass.Take(t.Context()); err != nil { // a sweep would have the log looked at too
		t.Fatal(err)
	}
	defer s.sweeper.pass.End()
	// Otherwise SQLite would copy a long log in a commit.
	if _, err := s.writer.conn.ExecContext(t.Context(), "PRAGMA wal_autocheckpoint = 0"); err != nil {
		t.Fatal(err)
	}
	var hasBegunAnew atomic.Bool
	var callers sync.WaitGroup
	for range 64 {
		callers.Go(func() {
			for !hasBegunAnew.Load() {
				c, err := s.Claim(t.Context(), params(retrysafe.NewOwner().String()))
				if err == nil {
					err = s.Complete(t.Context(), c.Lease, retrysafe.Result{Body: largeBody[:64<<10]}, retrysafe.Retention{})
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for before, pages := int64(0), int64(0); pages >= before && !t.Failed(); time.Sleep(time.Millisecond) {
		if before = pages; before > 4*maxLogPages {
			t.Errorf("the log has %d pages", before)
			break
		}
		if all, _ := logSize(t, s); all >= 0 { // it is known
			pages = all
		}
	}
	hasBegunAnew.Store(true)
	callers.Wait()
}

// The log begins anew although something reads from it just then: the end of that is waited for.
//
// Seen to fail with a PASSIVE checkpoint in place of a RESTART.
func TestTheLogBeginsAnewAfterARead(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	fill(t, s, 2, largeBody)
	unpin := pin(t, s)
	back := gate(t, s)
	defer back()
	ended := make(chan error, 1)
	go func() { ended <- restartLog(t.Context(), s.writer.conn, false, time.Minute) }()
	conn, err := s.db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for isWaiting := false; !isWaiting; { // it holds the lock of those who write
		select {
		case err := <-ended:
			t.Fatalf("it waits for no reader: %v", err)
		default:
		}
		_, err := conn.ExecContext(t.Context(), "PRAGMA busy_timeout = 0; BEGIN IMMEDIATE; ROLLBACK")
		isWaiting = err != nil
	}
	unpin()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	back()
	before, _ := logSize(t, s)
	if err := pair(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if after, _ := logSize(t, s); after >= before {
		t.Errorf("the log has gone on from %d to %d pages", before, after)
	}
}

// The log that a crash has left is copied although nothing is written. Seen to fail without the kick in start.
func TestALogThatWasLeftIsCopied(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	open := withLongLog(t, s)
	crashed := filepath.Join(t.TempDir(), "store.db")
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(s.path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(crashed+suffix, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	open()
	left := openAt(t, crashed, new(atomic.Int64))
	emptied(t, left)
	if stats, err := left.Stats(context.Background()); err != nil || stats.Succeeded == 0 {
		t.Errorf("%d records, %v", stats.Succeeded, err)
	}
}

// While a commit changes the log, its size is not known, and no page of it counts as copied: the writer would copy the
// rest, and all callers would wait. Seen to fail without MaxInt32.
func TestALogOfUnknownSizeIsNotCopied(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	defer gate(t, s)()
	if _, err := s.writer.conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	defer s.writer.conn.ExecContext(context.Background(), "ROLLBACK")
	// The index of the log begins with two copies of its header, which differ while a commit writes them.
	index, err := os.OpenFile(s.path+"-shm", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer index.Close()
	header := make([]byte, 48)
	if _, err := index.ReadAt(header, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := index.WriteAt(make([]byte, len(header)), 0); err != nil {
		t.Fatal(err)
	}
	defer index.WriteAt(header, 0)
	if all, left := logSize(t, s); all >= 0 || left <= restPages {
		t.Errorf("%d of %d pages are left; want more than %d of a number that is not known", left, all, restPages)
	}
}

// pin begins a transaction that reads, and returns the function that ends it.
func pin(t *testing.T, s *Store) (unpin func()) {
	t.Helper()
	tx, err := s.db.BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := tx.QueryRow("SELECT count(*) FROM retrysafe_records").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := tx.Rollback(); err != nil {
			t.Error(err)
		}
	}
}
