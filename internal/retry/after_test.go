package retry_test

import (
	"math"
	"math/big"
	"net/http"
	"strings"
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
		{"2170000000A", "", 0},
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

// Whatever the header says, the wait is not negative and not longer than RFC 9111 has it, digits are seconds, and an
// instant is measured from the answer's own Date. Seen to fail with longestAfter taken out of After, and with Date left
// out.
func FuzzAfter(f *testing.F) {
	f.Add("7", "", int64(0))
	f.Add("99999999999999999999", "", int64(0))
	f.Add("-1", "x", int64(1))
	f.Add("Thu, 05 Nov 2026 10:01:00 GMT", "Thu, 05 Nov 2026 10:00:30 GMT", int64(1_700_000_000))
	f.Add("Fri, 31 Dec 9999 23:59:59 GMT", "Mon, 01 Jan 0001 00:00:00 GMT", int64(-1))
	f.Fuzz(func(t *testing.T, after, date string, second int64) {
		now := time.Unix(second%(1<<40), 0)
		got := retry.After(http.Header{"Retry-After": {after}, "Date": {date}}, now)
		if got < 0 || got > math.MaxInt32*time.Second || got%time.Second != 0 {
			t.Fatalf("Retry-After %q, Date %q: %v", after, date, got)
		}
		text := strings.TrimSpace(after)
		at, err := http.ParseTime(text)
		switch {
		case text != "" && strings.Trim(text, "0123456789") == "":
			n, _ := new(big.Int).SetString(text, 10)
			if n.Cmp(big.NewInt(math.MaxInt32)) > 0 {
				n = big.NewInt(math.MaxInt32)
			}
			if got != time.Duration(n.Int64())*time.Second {
				t.Errorf("%q is %v", after, got)
			}
		case err != nil:
			if got != 0 {
				t.Errorf("%q is %v", after, got)
			}
		default:
			if sent, err := http.ParseTime(date); err == nil {
				now = sent
			}
			if want := min(max(at.Unix()-now.Unix(), 0), math.MaxInt32); got != time.Duration(want)*time.Second {
				t.Errorf("Retry-After %q, Date %q: %v, want %d s", after, date, got, want)
			}
		}
	})
}
