package retrysafe

import "time"

// SetJitter replaces the random pauses of the Guards of this program, so that a simulation can be repeated.
func SetJitter(f func(time.Duration) time.Duration) (reset func()) {
	before := jitter
	jitter = f
	return func() { jitter = before }
}
