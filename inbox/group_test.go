package inbox

import (
	"runtime"
	"testing"
	"weak"
)

// The bodies of a burst of requests are not kept in memory after they were saved. Seen to fail with waiting never nil: the
// array behind it referred to them until as many requests had come again.
func TestABurstIsNotKept(t *testing.T) {
	var g group
	var bodies []weak.Pointer[entry]
	for range 3 {
		e := new(entry)
		e.Body = make([]byte, 1<<10)
		g.waiting, bodies = append(g.waiting, e), append(bodies, weak.Make(e))
	}
	if n := len(g.next()); n != 3 {
		t.Fatalf("%d requests are saved together, want 3", n)
	}
	runtime.GC()
	for i, e := range bodies {
		if e.Value() != nil {
			t.Errorf("request %d is still in memory", i)
		}
	}
	runtime.KeepAlive(&g)
}
