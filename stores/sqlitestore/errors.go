package sqlitestore

import (
	"errors"
	"fmt"
	"strings"
)

// Errors of Open, New and the methods of a Store, beside those of package retrysafe. Compare with errors.Is.
var (
	// ErrInUse is returned by Open and New if another process, or another Store of this one, has the file open.
	ErrInUse = errors.New("sqlitestore: file is in use")
	// ErrDamaged is returned if the file is not what was written: because of a bad disk, a truncated copy, or another
	// program that wrote to it. The store does not repair it.
	ErrDamaged = errors.New("sqlitestore: file is damaged")
	// ErrNotOurs is returned by Open and New if the file is not a SQLite database, or belongs to another program.
	ErrNotOurs = errors.New("sqlitestore: file is not a Retrysafe store")
	// ErrNewerSchema is returned by Open and New if a newer version of this package has written the file, and this one
	// cannot work with it.
	ErrNewerSchema = errors.New("sqlitestore: file has a newer schema")
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("sqlitestore: store is closed")
	// ErrInsideTransaction is returned if a method was called with the context of InTx. It would wait for that
	// transaction to end, and the transaction for it.
	ErrInsideTransaction = errors.New("sqlitestore: called inside InTx")
)

// explain adds to an error of SQLite which file it is about and what to do. SQLite's texts have not changed in twenty
// years, and unlike its codes they reach us through every driver.
func explain(path string, err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	switch {
	case errors.Is(err, ErrDamaged):
		return err
	case strings.Contains(text, "malformed"), strings.Contains(text, "SQLITE_CORRUPT"),
		strings.Contains(text, "file is not a database"):
		return fmt.Errorf("%w: %s: %w; restore it from a copy, or save what can be read with "+
			"\"sqlite3 %s .recover\", or move it away, which forgets every key in it: "+
			"retries of finished work would then run again", ErrDamaged, path, err, path)
	}
	return fmt.Errorf("sqlitestore: %s: %w", path, err)
}

// damaged marks an error as found in the file's content. explain adds the rest.
func damaged(err error) error { return fmt.Errorf("database disk image is malformed: %w", err) }

// isFull reports whether there was no space for a write.
func isFull(err error) bool {
	return err != nil && strings.Contains(err.Error(), "database or disk is full")
}

func isNoTransaction(err error) bool {
	return strings.Contains(err.Error(), "no transaction is active")
}
