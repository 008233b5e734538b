package proxycmd

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/keys"
	"github.com/retrysafe/retrysafe/observe/otelsafe"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/proxy"
)

// meterName is that of the proxy's own instruments, and of its tracer.
const meterName = "github.com/retrysafe/retrysafe/cmd/retrysafe"

// metrics are what Prometheus reads. docs/metrics.md lists them.
type metrics struct {
	registry *prometheus.Registry
	provider *sdk.MeterProvider
	observer retrysafe.Observer
	store    retrysafe.Store // measured
	requests metric.Float64Histogram
	unwatch  func() error

	unwatchInbox func() error

	reloads    metric.Int64Counter
	lastReload metric.Int64Gauge // when
	reloadOK   metric.Int64Gauge // whether the last one succeeded
}

// newMetrics measures the store, and reads all records of one without an index every so often; 0: never. Close it
// before the store.
func newMetrics(store retrysafe.Store, traced *traces, scanEvery time.Duration, log *slog.Logger) (*metrics, error) {
	m := &metrics{registry: prometheus.NewRegistry(), unwatch: func() error { return nil }, unwatchInbox: func() error { return nil }}
	out, err := exporter.New(exporter.WithRegisterer(m.registry), exporter.WithoutScopeInfo(),
		exporter.WithoutTargetInfo())
	if err != nil {
		return nil, err
	}
	m.provider = sdk.NewMeterProvider(sdk.WithReader(out))
	if err := errors.Join(m.measure(store, scanEvery, log), m.measureTraces(traced)); err != nil {
		return nil, errors.Join(err, m.close())
	}
	return m, nil
}

// measure registers every metric.
func (m *metrics) measure(store retrysafe.Store, scanEvery time.Duration, log *slog.Logger) (err error) {
	options := otelsafe.Options{MeterProvider: m.provider, TracerProvider: noop.NewTracerProvider()}
	if m.observer, err = otelsafe.New(options); err != nil {
		return err
	}
	if m.store, err = otelsafe.Instrument(store, options); err != nil {
		return err
	}
	if inspector, ok := store.(retrysafe.Inspector); ok {
		m.unwatch, err = otelsafe.WatchStore(inspector, otelsafe.WatchOptions{
			MeterProvider:     m.provider,
			ScanEvery:         scanEvery,
			UnknownFunc:       func(ctx context.Context) (int64, error) { return keys.Unknown(ctx, inspector) },
			UnknownRecordFunc: keys.IsUnknown,
			FailedFunc:        func(err error) { log.Warn("metrics of the store are missing", "error", err) },
		})
		if err != nil {
			return err
		}
	}
	meter := m.provider.Meter(meterName)
	var noReloads, noLastReload, noReloadOK error
	m.reloads, noReloads = meter.Int64Counter("retrysafe.config.reloads", metric.WithUnit("{reload}"),
		metric.WithDescription("Reloads of the configuration: succeeded, or refused, so that the one before stays in force."))
	m.lastReload, noLastReload = meter.Int64Gauge("retrysafe.config.last_success", metric.WithUnit("s"),
		metric.WithDescription("Unix time at which the configuration in force was read."))
	m.reloadOK, noReloadOK = meter.Int64Gauge("retrysafe.config.last_reload_successful",
		metric.WithDescription("Whether the last reload succeeded, or there was none yet: 1 or 0."))
	if err := errors.Join(noReloads, noLastReload, noReloadOK); err != nil {
		return err
	}
	m.requests, err = meter.Float64Histogram(
		"retrysafe.proxy.request.duration", metric.WithUnit("s"),
		metric.WithDescription("How long requests with a key took, waiting included, by route and by what became of them."),
		metric.WithExplicitBucketBoundaries(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300),
	)
	if err != nil {
		return err
	}
	m.started(context.Background())
	return errors.Join(
		m.registry.Register(collectors.NewGoCollector()),
		m.registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})),
		m.registry.Register(collectors.NewBuildInfoCollector()),
	)
}

// reloadResults are the values of the attribute result, by whether a reload has succeeded.
var reloadResults = map[bool]metric.MeasurementOption{
	true:  metric.WithAttributes(attribute.String("result", "succeeded")),
	false: metric.WithAttributes(attribute.String("result", "refused")),
}

// started exports the metrics of reloads before there is one, so that queries for an increase see the first.
func (m *metrics) started(ctx context.Context) {
	for _, result := range reloadResults {
		m.reloads.Add(ctx, 0, result)
	}
	m.lastReload.Record(ctx, time.Now().Unix())
	m.reloadOK.Record(ctx, 1)
}

// reloaded counts a reload.
func (m *metrics) reloaded(ctx context.Context, ok bool) {
	m.reloads.Add(ctx, 1, reloadResults[ok])
	if !ok {
		m.reloadOK.Record(ctx, 0)
		return
	}
	m.lastReload.Record(ctx, time.Now().Unix())
	m.reloadOK.Record(ctx, 1)
}

// measureTraces adds the metric of spans, which is 0 without traces.
func (m *metrics) measureTraces(t *traces) error {
	q := &spanQueue{}
	if t != nil {
		q = t.queue
	}
	_, err := m.provider.Meter(meterName).Int64ObservableCounter("retrysafe.trace.spans", metric.WithUnit("{span}"),
		metric.WithDescription("Spans by result: sent, or lost, because the collector was down or slow."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(q.sent.Load(), metric.WithAttributes(attribute.String("result", "sent")))
			o.Observe(q.lost.Load(), metric.WithAttributes(attribute.String("result", "lost")))
			return nil
		}))
	return err
}

// inboxName is the attribute "outbox" of the metrics of the inbox.
const inboxName = "inbox"

// watchInbox adds the metrics of the inbox, and returns what counts its deliveries.
func (m *metrics) watchInbox(box *outbox.Outbox) (outbox.Observer, error) {
	deliveries, err := otelsafe.NewOutboxObserver(otelsafe.OutboxOptions{
		MeterProvider: m.provider, Name: inboxName, TopicFunc: func(topic string) string { return topic },
	})
	if err != nil {
		return nil, err
	}
	m.unwatchInbox, err = otelsafe.WatchOutbox(box, otelsafe.WatchOptions{MeterProvider: m.provider, Name: inboxName})
	return deliveries, err
}

// watch adds the metric of the ends that the guard has failed to save.
func (m *metrics) watch(g *retrysafe.Guard) error {
	_, err := otelsafe.WatchGuard(g, otelsafe.Options{MeterProvider: m.provider}) // until the provider is shut down
	return err
}

// request times a request. Routes are those of the configuration, so they are few.
func (m *metrics) request(ctx context.Context, e proxy.Event) {
	if e.Begun {
		return
	}
	m.requests.Record(ctx, e.Took.Seconds(), metric.WithAttributeSet(attribute.NewSet(
		attribute.String("route", nameOf(e.Route)), attribute.String("outcome", what(e)),
	)))
}

// nameOf returns the name of a route for people; that of the default route is empty.
func nameOf(route string) string { return cmp.Or(route, "everything else") }

// handler serves the metrics as text.
func (m *metrics) handler() http.Handler {
	return promhttp.InstrumentMetricHandler(m.registry, promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
}

// close ends the reading of the store.
func (m *metrics) close() error {
	return errors.Join(m.unwatch(), m.unwatchInbox(), m.provider.Shutdown(context.Background()))
}
