package proxycmd

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/config"
	"github.com/retrysafe/retrysafe/proxy"
)

const (
	// maxSpans bounds the spans that wait to be sent, and those that are being sent. More are lost.
	maxSpans = 2048
	// flushTimeout bounds how long the end of the process waits for the last spans.
	flushTimeout = 5 * time.Second
)

// traces make a span of each request with a key. docs/traces.md describes them.
type traces struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	context  propagation.TraceContext
	queue    *spanQueue
	pageOf   func(digest string) string // "": the key has no page
}

// newTraces returns nil if no traces are configured. It does not contact the collector.
func newTraces(ctx context.Context, all *config.Config, log *slog.Logger) (*traces, error) {
	c := all.Traces
	if !c.OTLP.Set {
		return nil, nil
	}
	out, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(c.OTLP.Value.JoinPath("v1/traces").String()))
	if err != nil {
		return nil, err
	}
	about, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "retrysafe"), attribute.String("service.version", cli.Version())),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, err
	}
	q := &spanQueue{SpanExporter: out, log: log}
	q.SpanProcessor = sdk.NewBatchSpanProcessor(exporterOf{q}, sdk.WithMaxQueueSize(maxSpans))
	t := &traces{queue: q, pageOf: all.Dashboard.PageOf, provider: sdk.NewTracerProvider(
		sdk.WithSpanProcessor(q), sdk.WithResource(about),
		sdk.WithSampler(sdk.ParentBased(sdk.TraceIDRatioBased(c.Sample.Value))),
	)}
	t.tracer = t.provider.Tracer(meterName)
	return t, nil
}

// start is the proxy's TraceFunc. It continues the trace of the client, and makes the span the parent of the
// upstream's.
func (t *traces) start(r *http.Request) (end func(proxy.Event)) {
	ctx := t.context.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	ctx, span := t.tracer.Start(ctx, r.Method, trace.WithSpanKind(trace.SpanKindServer))
	r.Header.Del("Tracestate") // of a trace that is not continued, because its Traceparent is malformed
	t.context.Inject(ctx, propagation.HeaderCarrier(r.Header))
	return func(e proxy.Event) {
		if span.IsRecording() {
			t.describe(span, e)
		}
		span.End()
	}
}

// describe adds what became of the request: of the key only its digest, and no error, whose text may hold anything.
func (t *traces) describe(span trace.Span, e proxy.Event) {
	outcome := what(e)
	if e.Kind == 0 && e.Refusal == "" {
		outcome = "forwarded"
	}
	attributes := []attribute.KeyValue{
		attribute.String("http.request.method", e.Method),
		attribute.String("url.path", e.Path),
		attribute.String("retrysafe.outcome", outcome),
	}
	if e.Route != "" {
		span.SetName(e.Route)
		attributes = append(attributes, attribute.String("http.route", e.Route[strings.IndexByte(e.Route, ' ')+1:]))
	}
	if e.Status != 0 {
		attributes = append(attributes, attribute.Int("http.response.status_code", e.Status))
	}
	if e.Kind != 0 {
		attributes = append(attributes, attribute.String("retrysafe.key.digest", e.Key.String()),
			attribute.Int("retrysafe.attempt", e.Attempt))
		if page := t.pageOf(e.Key.String()); page != "" {
			attributes = append(attributes, attribute.String("retrysafe.key.page", page))
		}
	}
	if e.Refusal != "" {
		attributes = append(attributes, attribute.String("retrysafe.problem", string(e.Refusal)))
	}
	span.SetAttributes(attributes...)
	if e.Status >= http.StatusInternalServerError || e.Status == 0 {
		span.SetStatus(codes.Error, outcome)
	}
	ran := trace.SpanContextFromContext(t.context.Extract(context.Background(),
		propagation.MapCarrier{"traceparent": e.Traceparent}))
	if ran.IsValid() {
		span.AddLink(trace.Link{SpanContext: ran, Attributes: []attribute.KeyValue{
			attribute.String("retrysafe.link", "the request that ran"),
		}})
	}
}

// close sends the spans that wait, for as long as flushTimeout.
func (t *traces) close() {
	if t == nil {
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), flushTimeout)
	defer stop()
	_ = t.provider.Shutdown(ctx) // what was not sent is counted
	if n := t.queue.waiting.Load(); n > 0 {
		t.queue.lose(n)
	}
	if n := t.queue.lost.Load(); n > 0 {
		t.queue.log.Warn("spans were lost", "spans", n)
	}
}

// spanQueue bounds what waits for a collector, and counts. The processor of the SDK drops spans too when its queue is
// full, but does not say how many; this one never fills that queue.
type spanQueue struct {
	sdk.SpanProcessor
	sdk.SpanExporter
	log *slog.Logger

	waiting, sent, lost atomic.Int64
	failing             atomic.Bool
}

// OnEnd implements sdk.SpanProcessor. It never waits.
func (q *spanQueue) OnEnd(span sdk.ReadOnlySpan) {
	if !span.SpanContext().IsSampled() {
		return
	}
	if q.waiting.Add(1) > maxSpans {
		q.waiting.Add(-1)
		q.lose(1)
		return
	}
	q.SpanProcessor.OnEnd(span)
}

// Shutdown implements sdk.SpanProcessor, which shuts the exporter down.
func (q *spanQueue) Shutdown(ctx context.Context) error { return q.SpanProcessor.Shutdown(ctx) }

// lose counts spans that are not sent, and logs the first of them.
func (q *spanQueue) lose(n int64) {
	q.lost.Add(n)
	if !q.failing.Swap(true) {
		q.log.Warn("spans are lost: the collector of traces is down or slow", "spans", n)
	}
}

// exporterOf sends the spans of a queue.
type exporterOf struct{ *spanQueue }

// ExportSpans implements sdk.SpanExporter.
func (e exporterOf) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	n := int64(len(spans))
	err := e.SpanExporter.ExportSpans(ctx, spans)
	e.waiting.Add(-n)
	if err != nil {
		e.lose(n)
		return nil // it is counted and logged; the SDK would print it
	}
	e.sent.Add(n)
	e.failing.Store(false)
	return nil
}

// Shutdown implements sdk.SpanExporter.
func (e exporterOf) Shutdown(ctx context.Context) error { return e.SpanExporter.Shutdown(ctx) }
