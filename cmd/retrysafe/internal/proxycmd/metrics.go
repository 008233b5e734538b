package proxycmd

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"

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
	"github.com/retrysafe/retrysafe/proxy"
)

// metrics are what Prometheus reads. docs/metrics.md lists them.
type metrics struct {
	registry *prometheus.Registry
	provider *sdk.MeterProvider
	observer retrysafe.Observer
	store    retrysafe.Store // measured
	requests metric.Float64Histogram
	unwatch  func() error
}

// newMetrics measures the store. Close it before the store.
func newMetrics(store retrysafe.Store, log *slog.Logger) (*metrics, error) {
	m := &metrics{registry: prometheus.NewRegistry(), unwatch: func() error { return nil }}
	out, err := exporter.New(exporter.WithRegisterer(m.registry), exporter.WithoutScopeInfo(),
		exporter.WithoutTargetInfo())
	if err != nil {
		return nil, err
	}
	m.provider = sdk.NewMeterProvider(sdk.WithReader(out))
	if err := m.measure(store, log); err != nil {
		return nil, errors.Join(err, m.close())
	}
	return m, nil
}

// measure registers every metric.
func (m *metrics) measure(store retrysafe.Store, log *slog.Logger) (err error) {
	options := otelsafe.Options{MeterProvider: m.provider, TracerProvider: noop.NewTracerProvider()}
	if m.observer, err = otelsafe.New(options); err != nil {
		return err
	}
	if m.store, err = otelsafe.Instrument(store, options); err != nil {
		return err
	}
	if inspector, ok := indexed(store); ok {
		m.unwatch, err = otelsafe.WatchStore(inspector, otelsafe.WatchOptions{
			MeterProvider: m.provider,
			UnknownFunc:   func(ctx context.Context) (int64, error) { return keys.Unknown(ctx, inspector) },
			FailedFunc:    func(err error) { log.Warn("metrics of the store are missing", "error", err) },
		})
		if err != nil {
			return err
		}
	}
	m.requests, err = m.provider.Meter("github.com/retrysafe/retrysafe/cmd/retrysafe").Float64Histogram(
		"retrysafe.proxy.request.duration", metric.WithUnit("s"),
		metric.WithDescription("How long requests with a key took, waiting included, by route and by what became of them."),
		metric.WithExplicitBucketBoundaries(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300),
	)
	if err != nil {
		return err
	}
	return errors.Join(
		m.registry.Register(collectors.NewGoCollector()),
		m.registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})),
		m.registry.Register(collectors.NewBuildInfoCollector()),
	)
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
	return errors.Join(m.unwatch(), m.provider.Shutdown(context.Background()))
}
