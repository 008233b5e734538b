package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/retrysafe/retrysafe"
)

// A part of the disk is kept for keys that were accepted: one part of so many, up to maxReserve bytes. New keys are
// refused before it is touched. Otherwise an attempt could not extend its lease on a full disk, and would be canceled
// with its outcome unknown.
const (
	reservedPart = 8
	maxReserve   = 64 << 20
)

// checkSpace returns retrysafe.ErrStoreFull if a new key would take the reserve. It asks the system once for all claims
// of a transaction, because what they write reaches the disk with the commit.
func (s *writeTx) checkSpace() error {
	if !s.spaceKnown {
		s.spaceErr, s.spaceKnown = s.readSpace(), true
	}
	return s.spaceErr
}

// readSpace asks the system for checkSpace.
func (s *writeTx) readSpace() error {
	return checkDisk(s.w.path, s.w.bounds, 1, func(use func(runner) error) error { return use(s) })
}

// CheckSpace returns retrysafe.ErrStoreFull if the disk has less left than twice what is kept for keys that were accepted:
// see "The space" in the comment of the package. It is for what a program saves in the file beside keys, and can refuse,
// such as the requests of an inbox: the second half is for the keys under which they are going to be delivered.
func (s *Store) CheckSpace(ctx context.Context) error {
	err := checkDisk(s.path, s.bounds, 2, func(use func(runner) error) error {
		return s.readers.read(ctx, func(run runner, _ instant) error { return use(run) })
	})
	if errors.Is(err, retrysafe.ErrStoreFull) {
		s.makeRoom()
	}
	return err
}

// checkDisk returns retrysafe.ErrStoreFull if less is left than so many times the reserve. What the log is going to take is
// no space: it grows up to its bound, and then the file by the pages that are only in the log. Otherwise a copy of the log
// would take the reserve, and owners could write nothing. Pages that the file no longer uses are space, as long as half of
// the reserve is there for what is copied. with calls a function with a connection.
func checkDisk(path string, b logBounds, times int64, with func(use func(runner) error) error) error {
	total, left, known := diskSpace(filepath.Dir(path))
	reserve, logLimit, logSize := times*min(total/reservedPart, maxReserve), b.longest*b.pageSize, fileSize(path+"-wal")
	if !known || left >= reserve+logLimit+logSize {
		return nil
	}
	var free, size int64
	err := with(func(run runner) error {
		row, err := run.first("free_pages")
		if err != nil {
			return err
		}
		c := scanner{row: row}
		free, size = c.int()*b.pageSize, c.int()*b.pageSize
		return c.err
	})
	if err != nil {
		return err
	}
	forLog := max(logLimit-logSize, 0) + max(size-fileSize(path), 0)
	if left -= forLog; left >= reserve || left >= reserve/2 && free >= reserve {
		return nil
	}
	return fmt.Errorf("%w: %s has %d bytes left on its disk, of which its write-ahead log needs %d, and %d are kept for keys "+
		"that were accepted; free space, or shorten the Retention", retrysafe.ErrStoreFull, path, left+forLog, forLog, reserve)
}

// fileSize returns the size of a file; 0 if there is none.
func fileSize(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}
