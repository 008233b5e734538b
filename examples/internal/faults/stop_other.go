//go:build !unix

package faults

// stop does nothing: there is no SIGSTOP here.
func stop() {}
