package servers

import (
	"fmt"
	"testing"
	"time"
)

// FakeTime returns environment variables that put a program's wall clock wrong by offset; clocks that only measure how long
// things take go on as they are.
//
// It works by replacing functions of the C library. So it works for servers, given as their options' Env, but not for
// programs written in Go, which ask the system directly. To test clients whose clocks are wrong, put the server's wrong.
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
