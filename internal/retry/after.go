package retry

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// longestAfter is what a greater number of seconds counts as (RFC 9111, section 1.2.2), and a later instant.
const longestAfter = (1<<31 - 1) * time.Second

// After reads Retry-After (RFC 9110, section 10.2.3) of an answer that has come now: seconds, or an instant. 0: it
// says nothing, or an instant that is past.
func After(h http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(h.Get("Retry-After"))
	if text != "" && strings.Trim(text, "0123456789") == "" {
		seconds, _ := strconv.ParseUint(text, 10, 31) // of a number beyond that it returns the greatest
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
