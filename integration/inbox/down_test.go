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

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/inbox"
	"github.com/retrysafe/retrysafe/internal/testing/soak"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/stores/memstore"
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

// The records are kept for longer since the restart. That of a delivery before may have expired all the same.
//
// Seen to fail without Kept in mayHaveForgotten: the request was delivered.
func TestADeliveryOutlivesAShorterRetention(t *testing.T) {
	everywhere(t, func(k *kit) {
		k.policy.Retention.Replay = time.Hour
		k.post(`{"id":1}`).want(202)
		kill := fmt.Sprint("UPDATE inbox SET owner = 'killed', tries = 1, due_at = due_at - ", 2*time.Hour.Microseconds())
		if _, err := k.db.Exec(kill); err != nil {
			k.Fatal(err)
		}
		after := &kit{T: k.T, db: k.db, box: k.box, options: k.options, http: k.http, handler: k.handler}
		after.run()
		after.settled(0, 1)
		if runs := after.seen(); len(runs) > 0 {
			k.Errorf("the service has seen %q", runs)
		}
	})
}

// A delivery after one that was not seen to end finds the key in flight, and the next one the store away. Then all
// processes are killed, and start again when the record may have expired: the request may have been executed, and
// does not run.
//
// Seen to fail with Unseen taken out of judge and of unlessSeen: both requests were delivered.
func TestAPostponedDeliveryOutlivesTheRecord(t *testing.T) {
	everywhere(t, func(k *kit) {
		keys := memstore.New(memstore.Options{})
		store := &failing{Store: keys}
		k.store = store
		k.post(`{"id":1}`).want(202)
		k.post(`{"id":2}`).want(202)
		waiting := func() []outbox.Status {
			k.Helper()
			all, err := k.box.List(k.Context(), outbox.Pending, "", 0, 10)
			if err != nil || len(all) != 2 {
				k.Fatal(all, err)
			}
			return all
		}
		var killed []retrysafe.Lease
		for _, m := range waiting() {
			c, err := keys.Claim(k.Context(), retrysafe.ClaimParams{
				Key:   retrysafe.Key{Scope: m.Header[":scope"], ID: m.Header[":key"]},
				Owner: retrysafe.NewOwner(), Lease: time.Hour, Keep: retrysafe.Retention{}.WithDefaults(),
			})
			if err != nil {
				k.Fatal(err)
			}
			killed = append(killed, c.Lease)
		}
		runUntil := func(why string) {
			k.Helper()
			stop := k.run()
			defer stop()
			k.until("both were postponed: "+why, func() bool {
				all := waiting()
				return strings.Contains(all[0].Error, why) && strings.Contains(all[1].Error, why)
			})
		}
		age := func(hours int64) {
			k.Helper()
			_, err := k.db.Exec(fmt.Sprint("UPDATE inbox SET due_at = due_at - ", hours*time.Hour.Microseconds()))
			if err != nil {
				k.Fatal(err)
			}
		}
		runUntil("in_flight")
		age(1)
		store.left.Store(1000)
		runUntil("store_unavailable")
		store.left.Store(0)
		for _, l := range killed { // as if it had expired
			if err := keys.Release(k.Context(), l); err != nil {
				k.Fatal(err)
			}
		}
		age(24)
		k.run()
		k.settled(0, 2)
		if runs := k.seen(); len(runs) > 0 {
			k.Errorf("the service has seen %q", runs)
		}
	})
}

// A process is killed after it has kept the service's answer, and the next delivery comes when that is not replayed any
// more. A request that the service has refused is a dead letter all the same.
//
// Seen to fail without SituationNotReplayable in do: it counted as delivered.
func TestARefusalThatIsNotReplayed(t *testing.T) {
	everywhere(t, func(k *kit) {
		k.policy.Retention = retrysafe.Retention{Replay: time.Millisecond, Key: time.Hour}
		k.handler = func(w http.ResponseWriter, r *http.Request) {
			var said struct{ Answer int }
			if err := json.NewDecoder(r.Body).Decode(&said); err != nil {
				k.Error(err)
			}
			w.WriteHeader(said.Answer)
		}
		k.post(`{"id":1,"answer":201}`).want(202)
		k.post(`{"id":2,"answer":303}`).want(202)
		k.post(`{"id":3,"answer":422}`).want(202)
		stop := k.run()
		k.settled(1, 2)
		stop()
		if _, err := k.db.Exec("UPDATE inbox SET state = 1, owner = 'killed', due_at = due_at - 1000000"); err != nil {
			k.Fatal(err)
		}
		k.run()
		k.settled(1, 2)
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
