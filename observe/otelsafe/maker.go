package otelsafe

import (
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// maker creates instruments and collects the errors.
type maker struct {
	meter metric.Meter
	err   error
}

func keep[T any](m *maker, name string, instrument T, err error) T {
	if err != nil {
		m.err = errors.Join(m.err, fmt.Errorf("otelsafe: metric %s: %w", name, err))
	}
	return instrument
}

func (m *maker) counter(name, unit, what string) metric.Int64Counter {
	i, err := m.meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(what))
	return keep(m, name, i, err)
}

func (m *maker) upDownCounter(name, unit, what string) metric.Int64UpDownCounter {
	i, err := m.meter.Int64UpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(what))
	return keep(m, name, i, err)
}

func (m *maker) gauge(name, unit, what string) metric.Int64Gauge {
	i, err := m.meter.Int64Gauge(name, metric.WithUnit(unit), metric.WithDescription(what))
	return keep(m, name, i, err)
}

// histogram returns a histogram of seconds.
func (m *maker) histogram(name, what string, bounds []float64) metric.Float64Histogram {
	i, err := m.meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(what),
		metric.WithExplicitBucketBoundaries(bounds...))
	return keep(m, name, i, err)
}

// sizes returns a histogram of counts.
func (m *maker) sizes(name, unit, what string, bounds []float64) metric.Int64Histogram {
	i, err := m.meter.Int64Histogram(name, metric.WithUnit(unit), metric.WithDescription(what),
		metric.WithExplicitBucketBoundaries(bounds...))
	return keep(m, name, i, err)
}

func (m *maker) observed(name, unit, what string) metric.Int64ObservableGauge {
	i, err := m.meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(what))
	return keep(m, name, i, err)
}

func (m *maker) observedSeconds(name, what string) metric.Float64ObservableGauge {
	i, err := m.meter.Float64ObservableGauge(name, metric.WithUnit("s"), metric.WithDescription(what))
	return keep(m, name, i, err)
}

// workBounds are the bounds of histograms of work and waiting, in seconds.
func workBounds() []float64 {
	return []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300}
}

// storeBounds are those of calls to a store.
func storeBounds() []float64 {
	return []float64{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5}
}

// Attributes of metrics.
const (
	attrOutcome   = attribute.Key("outcome")
	attrOperation = attribute.Key("operation")
	attrCall      = attribute.Key("call")
	attrState     = attribute.Key("state")
	attrQuantile  = attribute.Key("quantile")
	attrOutbox    = attribute.Key("outbox")
	attrTopic     = attribute.Key("topic")
	attrSignal    = attribute.Key("signal")
	attrWhy       = attribute.Key("why")
	attrConsumer  = attribute.Key("consumer")
	attrSituation = attribute.Key("situation")
	attrAction    = attribute.Key("action")
	attrKind      = attribute.Key("kind")
)

// delayBounds are those of the time from saving a message until it is sent.
func delayBounds() []float64 {
	return []float64{0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 14_400, 86_400}
}

// labels are attributes as the instruments' options, so that recording does not allocate.
type labels struct {
	add    []metric.AddOption
	record []metric.RecordOption
}

func label(attributes ...attribute.KeyValue) labels {
	set := metric.WithAttributeSet(attribute.NewSet(attributes...))
	return labels{[]metric.AddOption{set}, []metric.RecordOption{set}}
}
