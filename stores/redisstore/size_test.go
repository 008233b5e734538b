package redisstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Keys of others do not count, but for the error of the sample. A database of the store's own is counted exactly, and
// its memory is what MEMORY USAGE says.
func TestSize(t *testing.T) {
	t.Parallel()
	r := startSet(t, nil)
	s := openOn(t, connect(t, r.Address()), Options{})
	size := func(low, high int64) int64 {
		t.Helper()
		entries, bytes, err := s.Size(t.Context())
		if err != nil || entries < low || entries > high || (bytes > 0) != (entries > 0) {
			t.Errorf("Size = %d entries of %d bytes, %v; want %d to %d entries", entries, bytes, err, low, high)
		}
		return bytes
	}
	size(0, 0)
	for i := range 200 {
		l := acquire(t, s, fmt.Sprint(i))
		if err := s.Complete(t.Context(), l, retrysafe.Result{Body: make([]byte, 1000)}, retrysafe.Retention{}); err != nil {
			t.Fatal(err)
		}
	}
	bytes := size(200, 200)
	stats, err := s.Stats(t.Context())
	if err != nil || bytes < stats.Bytes/2 || bytes > 2*stats.Bytes {
		t.Errorf("Size says %d bytes, and Stats %d, %v", bytes, stats.Bytes, err)
	}
	for i := range 200 {
		r.Command(t, "SET", fmt.Sprint("other ", i), "1")
	}
	size(80, 320) // the sample would be wrong by so much once in a billion times
}

// A server that does not answer is an error, and no empty store.
func TestSizeOfAServerThatIsDown(t *testing.T) {
	t.Parallel()
	r := startSet(t, nil)
	s := openOn(t, connect(t, r.Address()), Options{})
	s.options.Timeout = 100 * time.Millisecond
	r.Kill(t)
	if entries, bytes, err := s.Size(t.Context()); err == nil {
		t.Errorf("Size = %d, %d and no error", entries, bytes)
	}
}
