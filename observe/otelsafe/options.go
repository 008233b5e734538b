package otelsafe

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// Options of New, Instrument, NewClientObserver and NewQueueObserver.
type Options struct {
	// MeterProvider that metrics go to. Default: otel.GetMeterProvider().
	MeterProvider metric.MeterProvider
	// TracerProvider for the keys' own traces. Default: otel.GetTracerProvider(). The package
	// trace/noop has one that leaves those traces out. Only New uses it.
	TracerProvider trace.TracerProvider
	// OperationFunc names the operation that a request belongs to, such as its route; New and NewClientObserver ask it. The name
	// becomes the attribute "operation", so there must be few: after 100 different ones, further ones are called "other".
	// It must never be made of a key, a scope or an owner. Empty: no attribute. Default: none has one.
	OperationFunc func(ctx context.Context) string
}

const scopeName = "github.com/retrysafe/retrysafe/observe/otelsafe"

func meterOf(p metric.MeterProvider) *maker {
	if p == nil {
		p = otel.GetMeterProvider()
	}
	return &maker{meter: p.Meter(scopeName)}
}

func (o Options) tracer() trace.Tracer {
	if o.TracerProvider == nil {
		return otel.GetTracerProvider().Tracer(scopeName)
	}
	return o.TracerProvider.Tracer(scopeName)
}
