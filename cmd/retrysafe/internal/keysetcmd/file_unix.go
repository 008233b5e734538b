//go:build unix

package keysetcmd

import (
	"errors"
	"os"
	"syscall"
)

// makeLike gives a file the owner, the group and the mode of another one.
func makeLike(f *os.File, other string) error {
	info, err := os.Stat(other)
	if err != nil {
		return err
	}
	if of, ok := info.Sys().(*syscall.Stat_t); ok {
		err = f.Chown(int(of.Uid), int(of.Gid))
	}
	return errors.Join(err, f.Chmod(info.Mode().Perm()))
}
