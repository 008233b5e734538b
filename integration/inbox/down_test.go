package inbox

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/inbox"
	"github.com/retrysafe/retrysafe/internal/testing/soak"
	"github.com/retrysafe/retrysafe/outbox"
)

// deliveryKey is under which the context of a handler has its delivery, which httpsafe hides.
type deliveryKey struct{}

// A service is down for an hour, in which requests about a hundred objects come. None is given up, and no try counts.
// Then they are delivered, those of an object in the order in which they were acknowledged. The rate is printed; with
// RETRYSAFE_SOAK=50 there are 50,000 requests.
func TestSoakAnHourDown(t *testing.T) {
	n := soak.Times(t, 1000)
	everywhere(t, func(k *kit) {
		const objects = 100
		k.options = inbox.Options{
			Order: httpsafe.TagPlace{Pointer: "/object"}, Attempts: 1, MaxPerCaller: 2 * n, Idle: 20 * time.Millisecond, Concurrency: 64,
		}
		var up atomic.Bool
		var first atomic.Pointer[time.Time] // when the first request was delivered
		var mu sync.Mutex
		var last [objects]int
		var wrong []string
		k.handler = func(w http.ResponseWriter, r *http.Request) {
			if !up.Load() { // as the proxy says it
				r.Context().Value(deliveryKey{}).(*httpsafe.Delivery).NotSent = true
				httpsafe.Release(r.Context())
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			now := time.Now()
			first.CompareAndSwap(nil, &now)
			var said struct{ N, Object int }
			if err := json.NewDecoder(r.Body).Decode(&said); err != nil {
				k.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if said.N <= last[said.Object] {
				wrong = append(wrong, fmt.Sprintf("object %d: %d after %d", said.Object, said.N, last[said.Object]))
			}
			last[said.Object] = said.N
		}
		k.build()
		guarded := k.guarded
		k.guarded = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			guarded.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), deliveryKey{}, httpsafe.DeliveryFrom(r.Context()))))
		})
		k.run()
		began := time.Now()
		var all sync.WaitGroup
		for object := range objects {
			all.Go(func() {
				for i := 1; i <= n/objects; i++ {
					body := fmt.Sprintf(`{"id":"%d-%d","n":%d,"object":%d}`, object, i, i, object)
					a := k.post(body)
					for try := 0; a.Code == http.StatusServiceUnavailable && try < 10; try++ { // as senders do
						a = k.post(body)
					}
					if a.Code != http.StatusAccepted {
						k.Errorf("status %d: %s", a.Code, a.Body)
					}
				}
			})
		}
		all.Wait()
		accepting := time.Since(began)
		if _, err := k.db.Exec("UPDATE inbox SET saved_at = saved_at - 3600000000, due_at = due_at - 3600000000"); err != nil {
			k.Fatal(err)
		}
		if dead := k.count(outbox.Dead); dead != 0 {
			k.Fatalf("%d requests were given up", dead)
		}
		up.Store(true)
		k.until("all were delivered", func() bool {
			waiting := 0
			if err := k.db.QueryRow("SELECT count(*) FROM inbox WHERE state <> 2").Scan(&waiting); err != nil {
				k.Fatal(err)
			}
			return waiting == 0
		})
		k.Logf("%d requests: %.0f accepted in a second while the service was down, %.0f delivered in a second after it",
			n, float64(n)/accepting.Seconds(), float64(n)/time.Since(*first.Load()).Seconds())
		mu.Lock()
		defer mu.Unlock()
		if len(wrong) > 0 || slices.Min(last[:]) != n/objects {
			k.Errorf("out of order: %v; the last of each object: %v", wrong, last)
		}
	})
}
