package sqlitestore

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// fileLock keeps other processes, and other Stores of this one, away from a database: SQLite would let them in, but the
// writer's batches, its fences and Watch count on being alone. The operating system frees it when the process ends,
// however that happens.
type fileLock struct{ file *os.File }

// lockFile locks path + ".lock", and writes the process ID into it, for the error that another process gets. The file
// stays when the lock is released: removing it would let two processes lock two files of that name.
func lockFile(path string) (*fileLock, error) {
	name := path + ".lock"
	f, err := openLocked(name)
	if errors.Is(err, errLocked) {
		return nil, fmt.Errorf("%w: %s%s has it open; close that one first, or use a server database for several "+
			"processes", ErrInUse, path, holder(name))
	}
	if err != nil {
		return nil, fmt.Errorf("sqlitestore: lock %s: %w", path, err)
	}
	// The process ID helps people; the lock holds without it, even on a full disk.
	if f.Truncate(0) == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return &fileLock{file: f}, nil
}

// errLocked is returned by openLocked if another process, or another Store of this one, has the lock.
var errLocked = errors.New("locked")

// holder names the process that has the lock, if the file says which.
func holder(name string) string {
	f, err := os.Open(name)
	if err != nil {
		return ": another process"
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 32))
	pid, numErr := strconv.Atoi(strings.TrimSpace(string(text)))
	switch {
	case err != nil || numErr != nil:
		return ": another process"
	case pid == os.Getpid():
		return ": this process (another Store)"
	}
	return fmt.Sprintf(": process %d", pid)
}

// release frees the lock before it closes the file: a process that is just being started has a copy of it for a moment.
func (l *fileLock) release() error { return errors.Join(unlock(l.file), l.file.Close()) }
