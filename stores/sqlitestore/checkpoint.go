package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe"
)

const (
	// checkpointPages is how many pages the write-ahead log has when they are copied into the file.
	checkpointPages = 4000
	// restPages is how few of them may be left for the writer to copy, while operations wait.
	restPages = 200
	// maxLogPages is how many make the writer copy them all after a commit, which lets callers wait: the disk is too slow
	// for what is written.
	maxLogPages = 8 * checkpointPages
	// logPart is the part of a small disk that the log may take: one part of so many.
	logPart = 16
	// minLogPages is how many pages it may have on the smallest one.
	minLogPages = 16
	// restartWait is how long operations wait for those who read from the log, so that it can begin anew.
	restartWait = 10 * time.Millisecond
	// checkpointAfter is how many operations are written between two looks at the log.
	checkpointAfter = 128
)

// checkpointer copies the pages of the write-ahead log into the file, on a connection that reads, while the writer goes
// on. SQLite would do it in a commit, and all operations would wait until the file is synced: for seconds if the disk is
// slow, or if a log that a crash has left is long.
//
// The log begins anew, instead of growing, once all of it is in the file and nothing reads from it. Because the writer
// writes more meanwhile, the last pages are copied by the writer itself, which is short.
type checkpointer struct {
	writes atomic.Int64 // since the last kick
	kick   chan struct{}
	ended  chan struct{}
}

// logBounds bound the write-ahead log, in pages.
type logBounds struct {
	pageSize        int64
	copied, longest int64 // see checkpointPages and maxLogPages
}

// newLogBounds returns the bounds for a file. On a small disk they are lower, so that the log does not take what is kept
// for keys that were accepted.
func newLogBounds(ctx context.Context, conn *sql.Conn, path string) logBounds {
	b := logBounds{copied: checkpointPages, longest: maxLogPages}
	if err := conn.QueryRowContext(ctx, "PRAGMA page_size").Scan(&b.pageSize); err != nil || b.pageSize <= 0 {
		b.pageSize = 4096 // prepareFile says what is wrong with the file
	}
	if total, _, known := diskSpace(filepath.Dir(path)); known {
		b.longest = max(min(maxLogPages, total/logPart/b.pageSize), minLogPages)
		b.copied = min(checkpointPages, b.longest/2)
	}
	return b
}

// start lets the checkpointer look at the log that is there.
func (c *checkpointer) start() {
	c.kick, c.ended = make(chan struct{}, 1), make(chan struct{})
	c.look()
}

// look lets the checkpointer look at the log.
func (c *checkpointer) look() {
	select {
	case c.kick <- struct{}{}:
	default: // it is due already
	}
}

// saved has the log looked at now and then.
func (c *checkpointer) saved(operations int) {
	if c.writes.Add(int64(operations)) < checkpointAfter {
		return
	}
	c.writes.Store(0)
	c.look()
}

// checkpointInBackground copies pages when the writer says so, until the store closes.
func (s *Store) checkpointInBackground() {
	defer close(s.checkpointer.ended)
	ctx, cancel := s.writer.context()
	defer cancel()
	for {
		select {
		case <-s.checkpointer.kick:
			_ = s.checkpointLog(ctx) // what fails now is tried again later
		case <-ctx.Done():
			return
		}
	}
}

// checkpointLog copies the pages of the log into the file if there are enough, so that the log begins anew, and makes it
// short again if it has outgrown its bound while something read from it: new keys may be refused until then, so that none
// would write to it. If either fails, because something reads from it just then, that is tried again as soon as the log is
// looked at again.
func (s *Store) checkpointLog(ctx context.Context) error {
	all, left, err := s.onReader(ctx, "log_size")
	isLong := fileSize(s.path+"-wal") > s.bounds.longest*s.bounds.pageSize
	if err != nil || all < s.bounds.copied && !isLong {
		return err
	}
	for before := left + 1; left > restPages && left < before; {
		before = left
		if _, _, err := s.onReader(ctx, "checkpoint"); err != nil {
			return err
		}
		if _, left, err = s.onReader(ctx, "log_size"); err != nil {
			return err
		}
	}
	if left > restPages { // an old transaction still reads, or more is written than the disk can take
		return nil
	}
	back, err := s.writer.checkOut(ctx, retrysafe.Lease{})
	if err != nil {
		return err
	}
	defer back()
	return restartLog(ctx, s.writer.conn, isLong, restartWait)
}

// restartLog copies the rest of the log, and has it begin anew once nothing reads from it, for which it waits. Those who
// begin to read meanwhile read from the file. Otherwise one short read would have the log go on until it has grown again
// by as much.
func restartLog(ctx context.Context, conn *sql.Conn, isLong bool, wait time.Duration) (err error) {
	how := "RESTART"
	if isLong {
		how = "TRUNCATE" // and gives its space back
	}
	waits := fmt.Sprint("PRAGMA busy_timeout = ", wait.Milliseconds())
	for _, pragma := range []string{waits, "PRAGMA wal_checkpoint(" + how + ")", busyTimeout} {
		_, e := conn.ExecContext(ctx, pragma)
		err = errors.Join(err, e)
	}
	return err
}

// onReader runs a statement about the log on a connection that reads, and returns how many pages the log has, and how
// many of them are not in the file yet.
func (s *Store) onReader(ctx context.Context, q query) (all, left int64, err error) {
	err = s.readers.read(ctx, func(run runner, _ instant) error {
		row, err := run.first(q)
		if err != nil {
			return err
		}
		c := scanner{row: row}
		_, n, copied := c.int(), c.int(), c.int()
		all, left = n, n-copied
		if n < 0 { // not known: a commit was just changing it
			left = math.MaxInt32
		}
		return c.err
	})
	return all, left, err
}
