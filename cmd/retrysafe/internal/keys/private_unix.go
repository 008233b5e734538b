//go:build unix

package keys

import (
	"errors"
	"net"
	"os"
	"path/filepath"
)

// listenPrivately makes a socket that only its owner may connect to, from the moment it is there: in a directory that no
// other user may enter, from which it is moved when it has its mode. The umask is that of the whole process: directories that
// other goroutines make while it is changed could not be entered.
func listenPrivately(path string) (net.Listener, error) {
	directory, err := os.MkdirTemp(filepath.Dir(path), "")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(directory)
	made := filepath.Join(directory, "s")
	l, err := net.Listen("unix", made)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(os.Chmod(made, 0o600), os.Rename(made, path)); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}
