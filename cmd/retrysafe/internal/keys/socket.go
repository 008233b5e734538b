package keys

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// socketSuffix is what the socket's name has behind that of the SQLite file.
const socketSuffix = ".admin"

// maxSocketPath is the longest path that a socket can have on every system.
const maxSocketPath = 103

// unmoved is the longest name that a socket has in the directory of the file before it is moved to its place.
const unmoved = "/4294967295/s"

// pointer is the first part of a file that names the socket. It is used where the path of a socket beside the SQLite
// file is too long.
const pointer = "retrysafe socket: "

// socket is a listener that removes the files that it has created.
type socket struct {
	net.Listener
	made []string
}

// Listen listens beside the SQLite file at path, which must be absolute and locked by this process: an existing
// socket was left by a killed process, and is replaced. Only the user that owns the socket, and root, may connect.
func Listen(file string) (net.Listener, error) {
	place := file + socketSuffix
	if err := clear(place); err != nil {
		return nil, err
	}
	if max(len(place), len(filepath.Dir(place)+unmoved)) <= maxSocketPath {
		l, err := listenPrivately(place)
		if err != nil {
			return nil, err
		}
		return &socket{l, []string{place}}, nil
	}
	directory, err := os.MkdirTemp("", "retrysafe-") // which no other user may enter
	if err != nil {
		return nil, err
	}
	elsewhere := filepath.Join(directory, "keys"+socketSuffix)
	l, err := net.Listen("unix", elsewhere)
	if err == nil {
		err = os.WriteFile(place, []byte(pointer+elsewhere+"\n"), 0o600)
	}
	if err != nil {
		if l != nil {
			l.Close()
		}
		os.RemoveAll(directory)
		return nil, err
	}
	return &socket{l, []string{place, elsewhere, directory}}, nil
}

// clear removes the socket of an earlier process. It returns an error if the file is something else.
func clear(place string) error {
	info, err := os.Lstat(place)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() == fs.ModeSocket:
		return os.Remove(place)
	}
	elsewhere, err := readPointer(place)
	if err != nil {
		return err
	}
	os.Remove(elsewhere)
	os.Remove(filepath.Dir(elsewhere)) // only if it is empty
	return os.Remove(place)
}

// socketOf returns the path of the socket beside a SQLite file.
func socketOf(file string) (string, error) {
	place := file + socketSuffix
	info, err := os.Lstat(place)
	switch {
	case err != nil:
		return "", err
	case info.Mode().Type() == fs.ModeSocket:
		return place, nil
	}
	return readPointer(place)
}

// readPointer returns the path that a file names in the socket's place.
func readPointer(place string) (string, error) {
	text, err := os.ReadFile(place)
	if err != nil {
		return "", err
	}
	path, ours := strings.CutPrefix(strings.TrimSuffix(string(text), "\n"), pointer)
	if !ours {
		return "", fmt.Errorf("%s has the name of the socket for retrysafe keys; move it away", place)
	}
	return path, nil
}

// Close stops listening and removes the socket.
func (s *socket) Close() error {
	err := s.Listener.Close()
	for _, name := range s.made {
		os.Remove(name)
	}
	return err
}
