//go:build unix

package keys

import (
	"net"
	"syscall"
)

// listenPrivately makes a socket that only its owner may connect to, from the moment it is there: changing its mode
// afterwards would leave it open for a moment where the umask is lax. Files that other goroutines make meanwhile are
// private too.
func listenPrivately(path string) (net.Listener, error) {
	old := syscall.Umask(0o177)
	defer syscall.Umask(old)
	return net.Listen("unix", path)
}
