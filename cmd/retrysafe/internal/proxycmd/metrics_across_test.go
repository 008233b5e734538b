//go:build unix

package proxycmd

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdk "go.opentelemetry.io/otel/sdk/metric"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/client"
	"github.com/retrysafe/retrysafe/client/httpclient"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/clitest"
	"github.com/retrysafe/retrysafe/observe/otelsafe"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/queuesafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// scrapeProgram is what Prometheus sees of a program with a client, an outbox and a consumer, each of which has been
// through good and bad.
func scrapeProgram(t *testing.T) scrape {
	t.Helper()
	registry := prometheus.NewRegistry()
	out, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo(), exporter.WithoutTargetInfo())
	clitest.Must(t, err)
	provider := sdk.NewMeterProvider(sdk.WithReader(out))
	useClient(t, otelsafe.Options{MeterProvider: provider})
	useOutbox(t, provider)
	useQueue(t, otelsafe.Options{MeterProvider: provider})
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return parseScrape(w.Body.String())
}

// useClient loses all answers but the last.
func useClient(t *testing.T, o otelsafe.Options) {
	t.Helper()
	var answers atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if !answers.Load() {
			panic(http.ErrAbortHandler)
		}
	}))
	defer server.Close()
	seen, err := otelsafe.NewClientObserver(o)
	clitest.Must(t, err)
	transport := httpclient.NewTransport(httpclient.Options{
		Options: client.Options{Attempts: 2, Backoff: time.Millisecond, Observer: seen},
	})
	caller := http.Client{Transport: transport}
	if _, err := caller.Post(server.URL, "text/plain", strings.NewReader(secretKey)); !errors.Is(err,
		client.ErrOutcomeUnknown) {
		t.Errorf("got %v, want ErrOutcomeUnknown", err)
	}
	answers.Store(true)
	response, err := caller.Post(server.URL, "text/plain", strings.NewReader(secretKey))
	clitest.Must(t, err)
	response.Body.Close()
}

// useOutbox sends one message; another becomes a dead letter.
func useOutbox(t *testing.T, provider *sdk.MeterProvider) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "shop.db")+"?_pragma=busy_timeout(10000)")
	clitest.Must(t, err)
	t.Cleanup(func() { db.Close() })
	box, err := outbox.New(db, outbox.SQLite, outbox.Options{})
	clitest.Must(t, err)
	_, err = box.Migrate(t.Context())
	clitest.Must(t, err)
	for _, key := range []string{secretKey, "bad"} {
		tx, err := db.BeginTx(t.Context(), nil)
		clitest.Must(t, err)
		clitest.Must(t, outbox.Save(t.Context(), box, tx, outbox.Message{Key: key}))
		clitest.Must(t, tx.Commit())
	}
	relays, err := otelsafe.NewOutboxObserver(otelsafe.OutboxOptions{MeterProvider: provider})
	clitest.Must(t, err)
	stop, err := otelsafe.WatchOutbox(box, otelsafe.WatchOptions{MeterProvider: provider})
	clitest.Must(t, err)
	t.Cleanup(func() { clitest.Must(t, stop()) })
	ctx, cancel := context.WithCancel(t.Context())
	outbox.NewRelay(box, outbox.Each(1, func(_ context.Context, d outbox.Delivery) error {
		if d.Key == "bad" {
			cancel() // the last one
			return outbox.Permanent(io.ErrUnexpectedEOF)
		}
		return nil
	}), outbox.RelayOptions{Observer: relays}).Run(ctx)
}

// useQueue handles one message twice, and another one in vain.
func useQueue(t *testing.T, o otelsafe.Options) {
	t.Helper()
	seen, err := otelsafe.NewQueueObserver(o)
	clitest.Must(t, err)
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{})
	defer guard.Shutdown(context.Background())
	consumer := queuesafe.New(guard, "billing", queuesafe.Options{Observer: seen})
	for _, id := range []string{secretKey, secretKey, "bad"} {
		consumer.Handle(t.Context(), queuesafe.Message{ID: id}, func(context.Context, queuesafe.Message) error {
			if id == "bad" {
				return io.ErrUnexpectedEOF
			}
			return nil
		})
	}
}

// What a program sees of a client, an outbox and a consumer.
//
// Seen to fail with each of the observers left out.
func TestMetricsAcrossServices(t *testing.T) {
	t.Parallel()
	s := scrapeProgram(t)
	s.want(t, map[string]float64{
		`retrysafe_client_attempt_duration_seconds_count{signal="no-answer"}`: 2,
		`retrysafe_client_attempt_duration_seconds_count{signal="success"}`:   1,
		`retrysafe_client_retry_wait_seconds_count{signal="no-answer"}`:       1,
		`retrysafe_client_outcomes_unknown_total{why="attempts"}`:             1,
		`retrysafe_client_outcomes_unknown_total{why="journal"}`:              0,
		`retrysafe_outbox_up`:                               1,
		`retrysafe_outbox_lag_seconds`:                      0,
		`retrysafe_outbox_messages{state="dead"}`:           1,
		`retrysafe_outbox_messages{state="due"}`:            0,
		`retrysafe_outbox_deliveries_total{outcome="sent"}`: 1,
		`retrysafe_outbox_deliveries_total{outcome="dead"}`: 1,
		`retrysafe_outbox_delivery_delay_seconds_count`:     1,
		`retrysafe_outbox_batch_size_sum`:                   2,
		`retrysafe_outbox_leases_lost_total`:                0,
		`retrysafe_queue_delivery_duration_seconds_count{action="ack",consumer="billing",situation="processed"}`: 1,
		`retrysafe_queue_delivery_duration_seconds_count{action="ack",consumer="billing",situation="duplicate"}`: 1,
		`retrysafe_queue_delivery_duration_seconds_count{action="dead",consumer="billing",situation="failed"}`:   1,
		`retrysafe_queue_failures_total{consumer="billing",kind="settle_failed"}`:                                0,
	})
	if strings.Contains(s.text, secretKey) || strings.Contains(s.text, "127.0.0.1") {
		t.Errorf("a key, a body or an address is shown:\n%s", s.text)
	}
}
