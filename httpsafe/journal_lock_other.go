//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package httpsafe

import (
	"errors"
	"io"
)

// lockJournal fails: without a lock that ends with the process, two could send the same intents.
func lockJournal(string) (io.Closer, error) {
	return nil, errors.New("file journals are not supported on this system; use NewSQLJournal")
}

func ignoreUnsupported(err error) error { return err }
