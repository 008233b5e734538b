//go:build linux || darwin

package sqlitestore

import "syscall"

// diskSpace returns the size of the file system that a folder is in, and what is left of it; known is false if it does
// not say.
func diskSpace(folder string) (total, left int64, known bool) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(folder, &s); err != nil || s.Blocks == 0 {
		return 0, 0, false
	}
	block := int64(s.Bsize) //nolint:unconvert // it has another type on macOS
	return int64(s.Blocks) * block, int64(s.Bavail) * block, true
}
