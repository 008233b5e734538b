// Package soak scales the tests that kill and pause processes, so that they can run for hours.
package soak

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// Times returns n, a number of rounds or a duration, multiplied by the environment variable RETRYSAFE_SOAK if it is
// set, as make soak does. The name of a test that calls it must begin with TestSoak.
func Times[N int | time.Duration](t testing.TB, n N) N {
	t.Helper()
	set := os.Getenv("RETRYSAFE_SOAK")
	if set == "" {
		return n
	}
	factor, err := strconv.Atoi(set)
	if err != nil || factor < 1 {
		t.Fatalf("RETRYSAFE_SOAK=%q: want a whole number, by which the length of the tests is multiplied", set)
	}
	return n * N(factor)
}
