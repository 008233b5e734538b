//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package filejournal

import (
	"errors"
	"io"
)

// lockFile fails: without a lock that ends with the process, two could send the same intents.
func lockFile(string) (io.Closer, error) {
	return nil, errors.New("file journals are not supported on this system; use sqljournal")
}

func ignoreUnsupported(err error) error { return err }
