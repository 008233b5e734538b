package demo

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Seen to fail with every charge shown, with the sum of a second left out, and with the sums going on once it is
// quiet.
func TestManyChargesAreSummedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		c := newCounter(&screen{w: &out})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go c.show(ctx)
		charge := func(from, to int64) {
			for id := from; id <= to; id++ {
				c.count(row{ID: id, Customer: "me", Order: "mine", Amount: 500})
			}
		}
		take := func() string { // what was written since the last take
			synctest.Wait()
			c.mu.Lock()
			defer c.mu.Unlock()
			defer out.Reset()
			return strings.TrimSuffix(out.String(), "\n")
		}
		said := func(what string, want ...string) {
			t.Helper()
			if got := take(); got != strings.Join(want, "\n") {
				t.Errorf("%s:\n%s\nwant\n%s", what, got, strings.Join(want, "\n"))
			}
		}
		time.Sleep(countEvery / 2) // between two looks
		charge(1, 2)
		said("few", "    = charge 1: me, order mine, amount 500", "    = charge 2: me, order mine, amount 500")
		time.Sleep(countEvery)
		charge(3, 100)
		if lines := strings.Split(take(), "\n"); len(lines) != oneByOne {
			t.Errorf("%d lines of 98 charges, want %d", len(lines), oneByOne)
		}
		time.Sleep(countEvery)
		said("many", "    = 93 charges more, up to number 100")
		charge(101, 101)
		time.Sleep(countEvery)
		said("many, still", "    = 1 charge more, up to number 101")
		time.Sleep(countEvery)
		charge(102, 102)
		said("few again", "    = charge 102: me, order mine, amount 500")
	})
}
