//go:build !race

// The race detector changes stacks.

package proxy_test

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/proxy"
)

// A request that waits keeps its goroutine, and with it a stack that has doubled until all functions fit that are
// called on the way to where it waits. So none of them may have room for something large, such as a copy of
// httpsafe.Options.
//
// Seen to fail with Options passed by value by the functions that now pass a pointer, here and in httpsafe: 32 KiB in both
// cases.
func TestRequestsThatWaitHaveSmallStacks(t *testing.T) {
	done := make(chan struct{})
	up := newUpstream(t, func(http.ResponseWriter, *http.Request) { <-done })
	k := newKit(t, up.URL, limited(proxy.Limits{Concurrent: 4000}), func(s *setup) {
		s.guard.Policy = retrysafe.Policy{OnInFlight: retrysafe.Wait(10 * time.Minute)}
	})
	t.Cleanup(func() { close(done) }) // before the servers close
	for _, c := range []struct {
		where string // the function in which the requests wait
		body  int    // the length that is announced
		most  int
	}{
		{"retrysafe.(*Guard).wait(", 2, 26 << 10}, // 16 KiB, and what net/http has to notice that the client leaves
		{"proxy.(*holder).Read(", 1000, 18 << 10},
	} {
		const requests = 300
		before := stackBytes()
		for range requests {
			conn, err := net.Dial("tcp", strings.TrimPrefix(k.URL, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
			fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\nIdempotency-Key: k\r\n\r\n{}", c.body)
		}
		text := make([]byte, 16<<20)
		late := time.Now().Add(time.Minute)
		for waiting := 0; waiting < requests-10; { // one of them is at the upstream, and another one asks the store
			if time.Now().After(late) {
				t.Fatalf("%s: %d requests wait", c.where, waiting)
			}
			time.Sleep(50 * time.Millisecond) // the stack of everything stops everything
			waiting = bytes.Count(text[:runtime.Stack(text, true)], []byte(c.where))
		}
		if got := (stackBytes() - before) / requests; got > c.most {
			t.Errorf("%s: a stack of %d bytes, want at most %d", c.where, got, c.most)
		}
	}
}

// stackBytes returns the bytes of all stacks, once the garbage collector has shrunk those that can be smaller.
func stackBytes() int {
	for range 6 {
		runtime.GC()
	}
	sample := []metrics.Sample{{Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(sample)
	return int(sample[0].Value.Uint64())
}
