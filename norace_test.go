//go:build !race

package retrysafe_test

const raceEnabled = false
