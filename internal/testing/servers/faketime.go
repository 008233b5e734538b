package servers

import (
	"fmt"
	"testing"
	"time"
)

// FakeTime returns environment variables that shift a program's wall clock by offset. Monotonic clocks are not
// changed.
//
// It works by replacing functions of the C library. It therefore works for servers, as the Env of their options, but
// not for Go programs, which ask the kernel directly. To test clients with wrong clocks, shift the server's clock.
func FakeTime(t testing.TB, offset time.Duration) []string {
	t.Helper()
	library, err := findProgram(faketime)
	check(t, err)
	return []string{
		"LD_PRELOAD=" + library,
		fmt.Sprintf("FAKETIME=%+f", offset.Seconds()),
		"FAKETIME_DONT_FAKE_MONOTONIC=1",
	}
}
