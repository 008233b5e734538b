//go:build unix

package proxycmd

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
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

// A program has an outbox with a message that no relay sends and one that is dead, a client that gives up, and a
// consumer that does.
func badProgram(tl *timeline) {
	const lags, dead, unread, unknown, letters = "RetrysafeOutboxLags", "RetrysafeOutboxDeadLetters",
		"RetrysafeOutboxUnread", "RetrysafeClientOutcomesUnknown", "RetrysafeQueueDeadLetters"
	p := newShop(tl.T)
	p.call(true)
	p.consume("good", nil)
	tl.passWith(10, p.until("retrysafe_outbox_up", 1))
	tl.quiet(lags, dead, unread, unknown, letters)
	p.save("dead")
	p.relay(outbox.Permanent(errBad))
	p.save("waiting")
	p.execute("UPDATE retrysafe_outbox SET saved_at = saved_at - 3600000000 WHERE state = 1")
	p.consume("bad", errBad)
	for range 4 {
		p.call(false)
		tl.passWith(2, p.until(`retrysafe_outbox_messages{state="due"}`, 1))
	}
	tl.fires(lags, dead, unknown, letters)
	p.execute("ALTER TABLE retrysafe_outbox RENAME TO away")
	tl.passWith(12, p.until("retrysafe_outbox_up", 0))
	tl.fires(unread)
	p.execute("ALTER TABLE away RENAME TO retrysafe_outbox")
	_, err := p.box.Redeliver(tl.Context(), "dead")
	clitest.Must(tl.T, err)
	p.relay(nil)
	p.call(true)
	tl.passWith(10, p.until(`retrysafe_outbox_messages{state="dead"}`, 0))
	tl.quiet(lags, dead, unread, unknown, letters)
}

var errBad = errors.New("bad")

// shop is a program with an outbox, a client and a consumer, and its metrics.
type shop struct {
	*testing.T
	registry *prometheus.Registry
	db       *sql.DB
	box      *outbox.Outbox
	caller   http.Client
	relays   outbox.Observer
	consumer *queuesafe.Consumer
}

func newShop(t *testing.T) *shop {
	t.Helper()
	p := &shop{T: t, registry: prometheus.NewRegistry()}
	out, err := exporter.New(exporter.WithRegisterer(p.registry), exporter.WithoutScopeInfo(),
		exporter.WithoutTargetInfo())
	clitest.Must(t, err)
	o := otelsafe.Options{MeterProvider: sdk.NewMeterProvider(sdk.WithReader(out))}
	calls, noCalls := otelsafe.NewClientObserver(o)
	deliveries, noDeliveries := otelsafe.NewQueueObserver(o)
	relays, noRelays := otelsafe.NewOutboxObserver(otelsafe.OutboxOptions{MeterProvider: o.MeterProvider})
	clitest.Must(t, errors.Join(noCalls, noDeliveries, noRelays))
	p.relays = relays
	p.caller.Transport = httpclient.NewTransport(httpclient.Options{
		Options: client.Options{Attempts: 2, Backoff: time.Millisecond, Observer: calls},
	})
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{})
	t.Cleanup(func() { clitest.Must(t, guard.Shutdown(context.Background())) })
	p.consumer = queuesafe.New(guard, "billing", queuesafe.Options{Observer: deliveries})
	p.db, err = sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "shop.db")+"?_pragma=busy_timeout(10000)")
	clitest.Must(t, err)
	t.Cleanup(func() { p.db.Close() })
	p.box, err = outbox.New(p.db, outbox.SQLite, outbox.Options{Table: "retrysafe_outbox"})
	clitest.Must(t, err)
	_, err = p.box.Migrate(t.Context())
	clitest.Must(t, err)
	stop, err := otelsafe.WatchOutbox(p.box, otelsafe.WatchOptions{MeterProvider: o.MeterProvider, Every: 1})
	clitest.Must(t, err)
	t.Cleanup(func() { clitest.Must(t, stop()) })
	return p
}

// call makes a call that a server answers, or never does.
func (p *shop) call(answers bool) {
	p.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if !answers {
			panic(http.ErrAbortHandler)
		}
	}))
	defer server.Close()
	res, err := p.caller.Post(server.URL, "text/plain", strings.NewReader("amount=1"))
	if err == nil {
		res.Body.Close()
	}
	if answers != (err == nil) || !answers && !errors.Is(err, client.ErrOutcomeUnknown) {
		p.Errorf("a server that answers: %t: got %v", answers, err)
	}
}

func (p *shop) save(key string) {
	p.Helper()
	tx, err := p.db.BeginTx(p.Context(), nil)
	clitest.Must(p.T, err)
	clitest.Must(p.T, outbox.Save(p.Context(), p.box, tx, outbox.Message{Key: key}))
	clitest.Must(p.T, tx.Commit())
}

// relay runs a relay until all due messages have had a try, which ends so.
func (p *shop) relay(end error) {
	p.Helper()
	ctx, cancel := context.WithCancel(p.Context())
	defer cancel()
	go outbox.NewRelay(p.box, outbox.Each(1, func(context.Context, outbox.Delivery) error { return end }),
		outbox.RelayOptions{Observer: p.relays}).Run(ctx)
	for left := 1; left > 0; time.Sleep(10 * time.Millisecond) {
		row := p.db.QueryRowContext(p.Context(), "SELECT count(*) FROM retrysafe_outbox WHERE state = 1")
		clitest.Must(p.T, row.Scan(&left))
	}
}

func (p *shop) execute(text string) {
	p.Helper()
	_, err := p.db.ExecContext(p.Context(), text)
	clitest.Must(p.T, err)
}

func (p *shop) consume(id string, end error) {
	p.consumer.Handle(p.Context(), queuesafe.Message{ID: id}, func(context.Context, queuesafe.Message) error { return end })
}

// until collects until a series has a value: a reading of the outbox may be a moment old.
func (p *shop) until(series string, v float64) scrape {
	p.Helper()
	for late := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		w := httptest.NewRecorder()
		promhttp.HandlerFor(p.registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		s := parseScrape(w.Body.String())
		if is(series, v)(s) {
			return s
		}
		if time.Now().After(late) {
			p.Fatalf("%s does not come to %v:\n%s", series, v, s.text)
		}
	}
}
