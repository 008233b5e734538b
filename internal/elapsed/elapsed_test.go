package elapsed

import (
	"testing"
	"time"
	"unsafe"
)

// Seen to fail with each half of between taken out.
func TestSlowerClockDoesNotCount(t *testing.T) {
	before := time.Now()
	for _, c := range []struct{ monotonic, wall, want time.Duration }{
		{time.Second, time.Second, time.Second},
		{time.Second, time.Hour, time.Hour},     // the machine slept
		{time.Second, -time.Hour, time.Second},  // the wall clock was set back
		{time.Minute, time.Second, time.Minute}, // and by less
		{0, 0, 0},
	} {
		if got := between(before, setWall(before.Add(c.monotonic), before, c.wall)); got != c.want {
			t.Errorf("%v by the monotonic clock and %v by the wall clock: got %v, want %v", c.monotonic, c.wall, got, c.want)
		}
	}
	if got := Since(before); got < 0 || got > time.Minute {
		t.Errorf("Since = %v", got)
	}
}

// setWall returns now with a wall clock that shows d more than before. No function of package time moves one clock alone,
// so it writes the seconds into the first word of a Time: from bit 30 on, if there is a monotonic clock.
func setWall(now, before time.Time, d time.Duration) time.Time {
	seconds := int64((d - now.Sub(before)) / time.Second)
	*(*uint64)(unsafe.Pointer(&now)) += uint64(seconds << 30)
	return now
}
