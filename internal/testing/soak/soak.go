// Package soak makes long runs of the tests that kill, stop and torture processes.
package soak

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// Times returns n, a number of rounds or a length of time, for an ordinary run of the tests, and RETRYSAFE_SOAK times as
// much where that variable is set, as make soak does. A test that calls it has a name that begins with TestSoak.
func Times[N int | time.Duration](t testing.TB, n N) N {
	t.Helper()
	set := os.Getenv("RETRYSAFE_SOAK")
	if set == "" {
		return n
	}
	factor, err := strconv.Atoi(set)
	if err != nil || factor < 1 {
		t.Fatalf("RETRYSAFE_SOAK=%q: want a whole number, how many times as long as usual the tests run", set)
	}
	return n * N(factor)
}
