package retry_test

import (
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/retry"
)

func TestAfter(t *testing.T) {
	now := time.Date(2026, 11, 5, 10, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		after, date string
		want        time.Duration
	}{
		{"", "", 0},
		{" 7 ", "", 7 * time.Second},
		{"0", "", 0},
		{"-1", "", 0},
		{"1.5", "", 0},
		{"soon", "", 0},
		{"99999999999", "", math.MaxInt32 * time.Second},
		{"Thu, 05 Nov 2026 10:01:00 GMT", "", time.Minute},
		{"Thu, 05 Nov 2026 10:01:00 GMT", "Thu, 05 Nov 2026 10:00:30 GMT", 30 * time.Second},
		{"Thu, 05 Nov 2026 10:01:00 GMT", "yesterday", time.Minute},
		{"Thu, 05 Nov 2026 09:00:00 GMT", "", 0},
		{"Thu, 05 Nov 2426 09:00:00 GMT", "", math.MaxInt32 * time.Second},
	} {
		h := http.Header{"Retry-After": {c.after}, "Date": {c.date}}
		if got := retry.After(h, now); got != c.want {
			t.Errorf("Retry-After %q, Date %q: %v, want %v", c.after, c.date, got, c.want)
		}
	}
}

// Seen to fail without regard to a heartbeat that did not come: a client came back before the lease of a dead process ended.
func TestInFlight(t *testing.T) {
	const lease = 30 * time.Second
	for _, c := range []struct{ age, leaseLeft, want time.Duration }{
		{0, lease, time.Second},
		{3 * time.Second, 27 * time.Second, 3 * time.Second},   // before the first heartbeat
		{8 * time.Second, 22 * time.Second, 8 * time.Second},   // the same
		{13 * time.Second, 17 * time.Second, 17 * time.Second}, // the heartbeat did not come
		{29 * time.Second, time.Second, time.Second},           // nor did the next
		{5 * time.Minute, 25 * time.Second, 25 * time.Second},  // alive, and slow
		{time.Hour, 45 * time.Second, 30 * time.Second},        // the same, with a longer lease than the policy says
		{2 * time.Second, 0, 2 * time.Second},                  // nothing is known of the lease
		{20 * time.Millisecond, 10 * time.Millisecond, time.Second},
	} {
		if got := retry.InFlight(c.age, c.leaseLeft, lease, time.Second); got != c.want {
			t.Errorf("age %v, %v left: %v, want %v", c.age, c.leaseLeft, got, c.want)
		}
	}
}
