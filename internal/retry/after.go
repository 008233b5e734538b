package retry

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// longestAfter is what a greater number of seconds counts as (RFC 9111, section 1.2.2), and a later instant.
const longestAfter = (1<<31 - 1) * time.Second

// After reads Retry-After (RFC 9110, section 10.2.3) of an answer that has come now: seconds, or an instant. 0: it says nothing, or an
// instant that is past.
func After(h http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(h.Get("Retry-After"))
	seconds, err := strconv.ParseUint(text, 10, 31) // of a number beyond that it returns the greatest
	if err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	// Our clock may differ from the server's: what counts is how far the instant is from the answer's own.
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return min(max(at.Sub(now), 0), longestAfter)
}

// longestInFlight bounds what a server asks a client to wait for an attempt.
const longestInFlight = 30 * time.Second

// InFlight estimates how long an attempt in flight still takes: what Retry-After says to whoever asks for its answer. age is
// how long it has taken so far, leaseLeft what is left of its lease, which is lease long and is extended every third of that.
// least is the shortest wait.
//
// An attempt that is alive takes about as long again as it has taken. While it is, more than three fifths of its lease are left,
// as it is extended with two thirds left. One that has missed a heartbeat is most likely dead, and nothing changes for its key
// before its lease ends.
func InFlight(age, leaseLeft, lease, least time.Duration) time.Duration {
	guess := age
	switch {
	case leaseLeft <= 0: // not known
	case leaseLeft < lease*3/5:
		guess = leaseLeft
	default:
		guess = min(age, leaseLeft)
	}
	return min(max(guess, least), longestInFlight)
}
