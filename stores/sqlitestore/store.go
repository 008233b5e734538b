package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	_ "modernc.org/sqlite" // the driver of Open

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// Options of a Store. Options{} works.
type Options struct {
	// aged lets time pass in tests: microseconds, kept by the test so that they outlive a reopening.
	aged *atomic.Int64
}

// Store implements retrysafe.Store, Sweeper, Watcher, Inspector, Purger, Reopener, Finder and SightingKeeper on a
// SQLite file. It is safe for concurrent use.
type Store struct {
	path    string
	db      *sql.DB
	owned   bool // Close closes db
	lock    *fileLock
	clock   *clock
	writer  *writer
	readers *readers
	watches storekit.Watches
	guess   storekit.Guess
	sweeper sweeper

	checkpointer checkpointer
	bounds       logBounds

	closing sync.Once
	closeFn func() error
}

var (
	_ retrysafe.Store          = (*Store)(nil)
	_ retrysafe.Sweeper        = (*Store)(nil)
	_ retrysafe.Watcher        = (*Store)(nil)
	_ retrysafe.Inspector      = (*Store)(nil)
	_ retrysafe.Purger         = (*Store)(nil)
	_ retrysafe.Reopener       = (*Store)(nil)
	_ retrysafe.Finder         = (*Store)(nil)
	_ retrysafe.SightingKeeper = (*Store)(nil)
)

// Open opens the store in the file at path, and makes the file, readable by its owner alone, if there is none. Its
// directory must exist, on a local disk: network file systems do not lock as SQLite needs it.
//
// It returns an error that is [ErrInUse] while another process has the file open, [ErrNotOurs] if the file is something
// else, [ErrNewerSchema] if a newer version has changed it so that this one cannot work with it, and [ErrDamaged] if it
// is not as it was written.
func Open(path string, o Options) (*Store, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("sqlitestore: %s: %w", path, err)
	}
	if err := createPrivate(abs); err != nil {
		return nil, fmt.Errorf("sqlitestore: create the file: %w", err)
	}
	dsn := url.URL{Scheme: "file", Path: filepath.ToSlash(abs), RawQuery: "_txlock=immediate&_pragma=busy_timeout(10000)"}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, fmt.Errorf("sqlitestore: %s: %w", path, err)
	}
	s, err := open(db, o, true)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

// createPrivate makes an empty file that only its owner may read, because it holds answers, also where a link leads
// that leads nowhere yet. SQLite gives the files beside it the same permissions. An existing file is left as it is.
func createPrivate(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o600)
	if err != nil {
		if _, there := os.Stat(path); there == nil { // SQLite says what is wrong with it
			return nil
		}
		return err
	}
	return f.Close()
}

// New returns a store in a database that the caller has opened, with any driver for SQLite, and closes after the
// Store. The database must be a file, and may have tables of the caller: New adds its own, whose names begin with
// "retrysafe_", and switches the file to WAL mode. The pool must allow for three connections, and the Store keeps up
// to five of them; with fewer, reads may wait while the write-ahead log is copied into the file. Begin the caller's
// transactions immediate (with modernc.org/sqlite: _txlock=immediate in the DSN), and set a busy timeout.
//
// It returns the errors of Open, but [ErrNotOurs] only if the file is not SQLite's.
func New(db *sql.DB, o Options) (*Store, error) { return open(db, o, false) }

func open(db *sql.DB, o Options, owned bool) (*Store, error) {
	s := &Store{db: db, owned: owned}
	if err := s.start(context.Background(), o); err != nil {
		return nil, errors.Join(err, s.release())
	}
	return s, nil
}

// start starts the parts, one after the other. The file is locked before it is read.
func (s *Store) start(ctx context.Context, o Options) error {
	conn, run, err := openConn(ctx, s.db)
	if err != nil {
		return fmt.Errorf("sqlitestore: connect: %w", err)
	}
	s.writer = &writer{conn: conn, run: run, saved: s.saved, full: s.makeRoom}
	if s.path, err = filePath(ctx, conn); err != nil {
		return err
	}
	s.writer.path = s.path
	if s.lock, err = lockFile(s.path); err != nil {
		return err
	}
	s.bounds = newLogBounds(ctx, conn, s.path)
	s.writer.bounds = s.bounds
	fence, err := prepareFile(ctx, conn, s.bounds, s.owned)
	if err != nil {
		return explain(s.path, err)
	}
	s.clock = newClock(fence, o.aged)
	s.writer.clock, s.writer.fence = s.clock, fence
	if err := s.openReaders(ctx); err != nil {
		return explain(s.path, err)
	}
	s.sweeper.start(fence)
	s.writer.start()
	s.checkpointer.start()
	go s.sweepInBackground()
	go s.checkpointInBackground()
	return nil
}

// saved is called by the writer once a transaction is on disk.
func (s *Store) saved(t *writeTx, operations int) {
	s.watches.Wake(t.changed...)
	s.sweeper.saved(t.deadlines)
	s.checkpointer.saved(operations)
}

// makeRoom has the log and the records looked at that may give space back. It is called by what finds no space: new
// keys are refused until then, so that what is written would have neither of them looked at.
func (s *Store) makeRoom() {
	s.checkpointer.look()
	s.sweeper.look()
}

// filePath asks SQLite for the path of the database, which does not read the file.
func filePath(ctx context.Context, conn *sql.Conn) (string, error) {
	var seq int
	var name, path string
	rows, err := conn.QueryContext(ctx, "PRAGMA database_list")
	if err != nil {
		return "", fmt.Errorf("sqlitestore: ask for the file's name: %w", err)
	}
	defer rows.Close()
	for name != "main" && rows.Next() {
		if err := rows.Scan(&seq, &name, &path); err != nil {
			return "", fmt.Errorf("sqlitestore: ask for the file's name: %w", err)
		}
	}
	if path == "" {
		return "", errors.Join(rows.Err(), errors.New("sqlitestore: the database is not a file; for records in memory "+
			"use memstore"))
	}
	return path, nil
}

func (s *Store) openReaders(ctx context.Context) error {
	n := maxReaders
	if limit := s.db.Stats().MaxOpenConnections; limit > 0 {
		n = min(n, limit-2)
	}
	if n < 1 {
		return errors.New("the pool allows fewer than three connections, but writing, reading, and what people look at " +
			"need one each: raise SetMaxOpenConns")
	}
	s.readers = &readers{path: s.path, clock: s.clock, free: make(chan *reader, n)}
	for range n {
		conn, run, err := openConn(ctx, s.db)
		if err != nil {
			return err
		}
		r := &reader{conn: conn, run: run}
		s.readers.all = append(s.readers.all, r)
		s.readers.free <- r
		if err := configure(ctx, conn, s.bounds); err != nil {
			return err
		}
	}
	return nil
}

// Path returns the absolute path of the file.
func (s *Store) Path() string { return s.path }

// Close commits the operations that have begun, and closes the file. Methods called later return [ErrClosed]. Later
// calls of Close return what the first did.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.writer.stop()
		<-s.sweeper.ended
		<-s.checkpointer.ended
		err := s.release()
		s.closeFn = func() error { return err }
	})
	return s.closeFn()
}

// release closes what has been opened, the lock last.
func (s *Store) release() error {
	var errs []error
	if s.readers != nil {
		errs = append(errs, s.readers.close())
	}
	if s.writer != nil {
		errs = append(errs, closeConn(s.writer.conn, s.writer.run))
	}
	if s.owned {
		errs = append(errs, s.db.Close())
	}
	if s.lock != nil {
		errs = append(errs, s.lock.release())
	}
	return errors.Join(errs...)
}
