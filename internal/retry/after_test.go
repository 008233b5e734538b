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
