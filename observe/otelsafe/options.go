package otelsafe

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// Options of New, Instrument, NewClientObserver and NewQueueObserver.
type Options struct {
	// MeterProvider creates the instruments. Default: otel.GetMeterProvider().
	MeterProvider metric.MeterProvider
	// TracerProvider creates the spans in the keys' own traces. Default: otel.GetTracerProvider(); use the one of
	// trace/noop to have no such traces. Only New uses it.
	TracerProvider trace.TracerProvider
	// OperationFunc returns the operation of a request, such as its route, given the request's context. It becomes
	// the attribute "operation". There must be few: after 100 different ones, all further ones are "other". It must
	// not contain a key, a scope or an owner. Empty: no attribute. Default: no attribute. New and NewClientObserver
	// use it.
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
