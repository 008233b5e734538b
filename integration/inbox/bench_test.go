package inbox

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/inbox"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/outbox"
)

// How many requests in a second a PostgreSQL that syncs lets an inbox accept, beside plain INSERTs of as many callers, and
// deliver to a service that answers at once; and how long a request takes from its acceptance to its delivery. The keys
// are in memory, so that the inbox alone is measured.
//
//	go test -run '^$' -bench Inbox -benchtime 1x ./inbox
func BenchmarkInbox(b *testing.B) {
	server := servers.StartPostgres(b, servers.PostgresOptions{})
	for _, callers := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			db, err := sql.Open("pgx", server.Database(b))
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			db.SetMaxOpenConns(90)
			db.SetMaxIdleConns(90)
			box, err := outbox.New(db, outbox.PostgreSQL, outbox.Options{Table: "inbox"})
			if err == nil {
				_, err = box.Migrate(b.Context())
			}
			if err == nil {
				_, err = db.Exec("CREATE TABLE plain (id bigint PRIMARY KEY, body bytea NOT NULL)")
			}
			if err != nil {
				b.Fatal(err)
			}
			k := &kit{db: db, box: box, options: inbox.Options{Concurrency: 64, MaxPerCaller: 1_000_000, MaxWaiting: 1_000_000}}
			k.http = httpsafe.Options{KeySource: httpsafe.NaturalKey{Fields: []string{"/id"}}, StatusPath: "/status"}
			var mu sync.Mutex
			var lags []time.Duration
			k.handler = func(_ http.ResponseWriter, r *http.Request) {
				at, _ := time.Parse(time.RFC3339Nano, r.Header.Get("Sent"))
				mu.Lock()
				lags = append(lags, time.Since(at))
				mu.Unlock()
			}
			k.build()
			n := max(200*callers, 2000) * b.N
			n = min(n, 20_000*b.N)
			perSecond := func(do func(i int)) float64 {
				var next atomic.Int64
				var all sync.WaitGroup
				began := time.Now()
				for range callers {
					all.Go(func() {
						for i := next.Add(1); int(i) <= n; i = next.Add(1) {
							do(int(i))
						}
					})
				}
				all.Wait()
				return float64(n) / time.Since(began).Seconds()
			}
			body := make([]byte, 200)
			plain := perSecond(func(i int) {
				if _, err := db.Exec("INSERT INTO plain VALUES ($1, $2)", i, body); err != nil {
					b.Error(err)
				}
			})
			accept := func(i int) {
				r := httptest.NewRequest(http.MethodPost, "/hooks", strings.NewReader(fmt.Sprintf(`{"id":%d,"text":"%0200d"}`, i, 0)))
				r.Header.Set("Sent", time.Now().Format(time.RFC3339Nano))
				w := httptest.NewRecorder()
				if k.guarded.ServeHTTP(w, r); w.Code != http.StatusAccepted {
					b.Errorf("status %d: %s", w.Code, w.Body)
				}
			}
			accepted := perSecond(accept)
			began := time.Now()
			ctx, stop := context.WithCancel(b.Context())
			ended := make(chan error, 1)
			go func() { ended <- k.in.Run(ctx, k.guarded) }()
			drained := func() {
				for left := 1; left > 0; time.Sleep(5 * time.Millisecond) {
					if err := db.QueryRow("SELECT count(*) FROM inbox WHERE state = 1").Scan(&left); err != nil {
						b.Fatal(err)
					}
				}
			}
			drained()
			delivered := float64(n) / time.Since(began).Seconds()
			mu.Lock()
			lags = nil
			mu.Unlock()
			both := perSecond(func(i int) { accept(n + i) })
			drained()
			stop()
			<-ended
			slices.Sort(lags)
			b.ReportMetric(accepted, "accepted/s")
			b.ReportMetric(accepted/plain, "accepted÷INSERT")
			b.ReportMetric(delivered, "delivered/s")
			b.ReportMetric(both, "accepted/s-while-delivering")
			b.ReportMetric(float64(lags[len(lags)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(lags[len(lags)*99/100].Microseconds())/1000, "p99-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
}
