package sqlitestore

import (
	"fmt"
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

// pageSize is SQLite's default. A file whose pages are larger has more space than is counted.
const pageSize = 4096

// checkSpace returns retrysafe.ErrStoreFull if a new key would take the reserve. It asks the system once for all claims
// of a transaction, because what they write reaches the disk with the commit.
func (s *writeTx) checkSpace() error {
	if !s.spaceKnown {
		s.spaceErr, s.spaceKnown = s.readSpace(), true
	}
	return s.spaceErr
}

// readSpace asks the system for checkSpace. Pages that the file no longer uses are space too, as long as half of the
// reserve is there for the write-ahead log.
func (s *writeTx) readSpace() error {
	total, left, known := diskSpace(filepath.Dir(s.w.path))
	reserve := min(total/reservedPart, maxReserve)
	if !known || left >= reserve {
		return nil
	}
	row, err := s.first("free_pages")
	if err != nil {
		return err
	}
	c := scanner{row: row}
	if free := c.int() * pageSize; c.err == nil && left >= reserve/2 && free >= reserve {
		return nil
	}
	return fmt.Errorf("%w: %s has %d bytes left on its disk, and the last %d are kept for keys that were accepted; "+
		"free space, or shorten the Retention", retrysafe.ErrStoreFull, s.w.path, left, reserve)
}
