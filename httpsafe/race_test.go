//go:build race

package httpsafe_test

const raceEnabled = true
