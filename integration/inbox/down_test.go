package inbox

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
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

// All processes are killed during deliveries, and start again when the records of the keys may have expired: a request
// that has no record then may have been executed, and does not run until a person says so. One that was in hand for a
// shorter time runs, and one whose record is still there gets its answer.
//
// Seen to fail with mayHaveForgotten false: all three were delivered.
func TestADeliveryOutlivesTheRecordOfItsKey(t *testing.T) {
	everywhere(t, func(k *kit) {
		stop := k.run()
		k.post(`{"id":1}`).want(202)
		k.settled(1, 0)
		stop()
		k.post(`{"id":2}`).want(202)
		k.post(`{"id":3}`).want(202)
		for id, hours := range map[int]int64{1: 24, 2: 24, 3: 23} {
			const kill = "UPDATE inbox SET state = 1, owner = 'killed', tries = 1, due_at = due_at - %d WHERE id = %d"
			if _, err := k.db.Exec(fmt.Sprintf(kill, hours*time.Hour.Microseconds(), id)); err != nil {
				k.Fatal(err)
			}
		}
		k.run()
		k.settled(2, 1)
		if runs := k.seen(); !slices.Equal(runs, []string{`{"id":1}`, `{"id":3}`}) {
			k.Errorf("the service has seen %q", runs)
		}
		letters, err := k.box.Dead(k.Context(), 0, 1)
		if err != nil || string(letters[0].Body) != `{"id":2}` || !strings.Contains(letters[0].Error, "was not seen to end") {
			k.Fatalf("dead letter %+v, %v", letters, err)
		}
		if n, err := k.box.Redeliver(k.Context(), letters[0].Key); n != 1 || err != nil {
			k.Fatal(n, err)
		}
		k.settled(3, 0)
		if n := len(k.seen()); n != 3 {
			k.Errorf("the service has seen %d requests, want 3", n)
		}
	})
}

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
