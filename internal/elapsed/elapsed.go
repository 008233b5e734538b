// Package elapsed measures how long something has taken, also if the machine slept meanwhile.
package elapsed

import "time"

// Since returns how much time has passed since t, as time.Now has returned it: by the monotonic clock or by the wall clock,
// whichever shows more. The monotonic clock may stand still while the machine sleeps, and the wall clock may be set back.
func Since(t time.Time) time.Duration { return between(t, time.Now()) }

func between(t, now time.Time) time.Duration {
	return max(now.Sub(t), now.Round(0).Sub(t.Round(0))) // Round(0) leaves the wall clock alone
}
