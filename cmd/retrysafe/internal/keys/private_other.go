//go:build !unix

package keys

import "net"

// listenPrivately makes a socket. On Windows it has the rights that its directory gives.
func listenPrivately(path string) (net.Listener, error) { return net.Listen("unix", path) }
