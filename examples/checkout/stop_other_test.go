//go:build !unix

package main

// wakeUntilDone does nothing: nothing is stopped here.
func (c *cluster) wakeUntilDone(string) (done func()) { return func() {} }
