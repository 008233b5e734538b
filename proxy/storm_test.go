package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
)

// One effect for each key, and the same answer for every client that gets one.
func TestStorms(t *testing.T) {
	for _, c := range []struct {
		name          string
		keys, callers int
	}{{"one key", 1, 200}, {"many keys", 1000, 2}} {
		t.Run(c.name, func(t *testing.T) {
			var mu sync.Mutex
			asked := map[string]int{}
			up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				id := r.Header.Get("Idempotency-Key")
				asked[id]++
				fmt.Fprintf(w, "%s %d", id, asked[id])
			})
			k := newKit(t, up.URL, func(s *setup) {
				s.options.Observer = nil
				s.guard.Policy.OnInFlight = retrysafe.Wait(time.Minute)
			})
			k.client.Transport.(*http.Transport).MaxIdleConnsPerHost = 64
			work := make(chan string, c.keys*c.callers)
			for range c.callers {
				for i := range c.keys {
					work <- fmt.Sprint("k", i)
				}
			}
			close(work)
			var callers sync.WaitGroup
			for range min(200, cap(work)) {
				callers.Go(func() {
					for key := range work {
						r, _ := http.NewRequest("POST", k.URL+"/", nil)
						r.Header.Set("Idempotency-Key", key)
						res, err := k.client.Do(r)
						if err != nil {
							t.Error(err)
							return
						}
						body, _ := io.ReadAll(res.Body)
						res.Body.Close()
						want(t, "body", string(body), key+" 1")
					}
				})
			}
			callers.Wait()
			want(t, "keys", len(asked), c.keys)
		})
	}
}
