package outbox

import (
	"errors"
	"testing"
	"time"
)

// Delays are drawn below a limit that doubles. Seen to fail with no doubling, with no jitter, and with no upper limit.
func TestDelay(t *testing.T) {
	r := NewRelay(nil, nil, RelayOptions{FirstDelay: time.Second, MaxDelay: 10 * time.Second})
	for try, limit := range map[int]time.Duration{
		1: time.Second, 2: 2 * time.Second, 4: 8 * time.Second,
		5: 10 * time.Second, 1000: 10 * time.Second,
	} {
		var least, most time.Duration = limit, 0
		for range 1000 {
			d := r.delay(try)
			least, most = min(least, d), max(most, d)
		}
		if most >= limit || most < limit*9/10 || least > limit/10 {
			t.Errorf("try %d: delays from %v to %v, want them all over 0 to %v", try, least, most, limit)
		}
	}
}

// Seen to fail with MaxTries, and with the marks of errors, not looked at.
func TestJudge(t *testing.T) {
	r := NewRelay(nil, nil, RelayOptions{MaxTries: 3, FirstDelay: 1, MaxDelay: 1})
	failed := errors.New("failed")
	for name, c := range map[string]struct {
		try   int
		err   error
		state int
		delay time.Duration
	}{
		"sent":                 {1, nil, sent, 0},
		"sent at the last try": {3, nil, sent, 0},
		"failed":               {2, failed, pending, 0},
		"failed at the last":   {3, failed, dead, 0},
		"permanent":            {1, Permanent(failed), dead, 0},
		"later":                {1, RetryAfter(failed, time.Hour), pending, time.Hour},
		"much later":           {1, RetryAfter(failed, 1000*time.Hour), pending, 24 * time.Hour},
	} {
		got := r.judge(Delivery{Try: c.try}, c.err)
		if got.State != c.state || fromMicros(got.Delay) != c.delay || (got.Error == "") != (c.err == nil) {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

// What became of a try before stays unknown if the message had no turn, or its sink says so; a try that was counted says
// it. Seen to fail with Owner never set.
func TestUnseen(t *testing.T) {
	r := NewRelay(nil, nil, RelayOptions{})
	failed := errors.New("failed")
	for name, c := range map[string]struct {
		unended time.Duration
		err     error
		owner   string
	}{
		"no turn":                        {0, Untried(errLate), ""},
		"no turn, after a crash":         {1, Untried(errLate), unseen},
		"nothing was sent":               {1, Untried(failed), ""},
		"nothing was learned":            {1, Unseen(Untried(failed)), unseen},
		"postponed, nothing was learned": {0, Unseen(Postponed(failed, time.Second)), unseen},
		"failed":                         {1, failed, ""},
	} {
		got := r.judge(Delivery{Try: 2, Unended: c.unended}, c.err)
		if got.Owner != c.owner || got.State != pending {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

// Seen to fail with a negative MaxTries taken as it is: everything died untried.
func TestNoLimitOfTries(t *testing.T) {
	r := NewRelay(nil, nil, RelayOptions{MaxTries: -1})
	for _, try := range []int{1, 1000} {
		d := Delivery{Try: try}
		if err := r.unfit(d); err != nil {
			t.Errorf("try %d: got %v", try, err)
		}
		if got := r.judge(d, errors.New("failed")); got.State != pending {
			t.Errorf("try %d: got %+v, want it tried again", try, got)
		}
	}
}

// Seen to fail with zero alone taken for not set: wait and sweep panicked.
func TestNegativeDurationsAreNotSet(t *testing.T) {
	r := NewRelay(nil, nil, RelayOptions{
		Batch: -1, Workers: -1, Lease: -1, Idle: -1, FirstDelay: -1, MaxDelay: -1, SweepEvery: -1,
	})
	want := NewRelay(nil, nil, RelayOptions{Batch: 1, Circuit: r.o.Circuit})
	if r.o != want.o {
		t.Errorf("the options are %+v, want %+v", r.o, want.o)
	}
}

func TestEventKindsHaveNames(t *testing.T) {
	seen := map[string]bool{"unknown": true}
	for k := MessageSent; k <= DatabaseFailed; k++ {
		if seen[k.String()] {
			t.Errorf("kind %d is called %s", k, k)
		}
		seen[k.String()] = true
	}
	if EventKind(0).String() != "unknown" || (DatabaseFailed+1).String() != "unknown" {
		t.Error("what is no kind has a name")
	}
}
