//go:build race

package retrysafe_test

const raceEnabled = true
