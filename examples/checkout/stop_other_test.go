//go:build !unix

package main

// wakeUntilDone does nothing: nothing is stopped here.
func (town *town) wakeUntilDone(string) (done func()) { return func() {} }
