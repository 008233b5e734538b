package filejournal

import (
	"errors"
	"io"
	"os"
	"syscall"
)

const errSharingViolation = syscall.Errno(32)

// lockFile takes the lock, which ends with the process: it opens a file that it does not share.
func lockFile(path string) (io.Closer, error) {
	name, err := syscall.UTF16PtrFromString(path)
	if err != nil {
		return nil, err
	}
	h, err := syscall.CreateFile(name, syscall.GENERIC_READ|syscall.GENERIC_WRITE, 0, nil, syscall.OPEN_ALWAYS,
		syscall.FILE_ATTRIBUTE_NORMAL, 0)
	if errors.Is(err, errSharingViolation) {
		err = ErrInUse
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(h), path), nil
}

// ignoreUnsupported: Windows syncs no folders.
func ignoreUnsupported(error) error { return nil }
