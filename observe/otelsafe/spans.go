package otelsafe

import (
	"context"
	"encoding/binary"

	"github.com/retrysafe/retrysafe"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Attributes of spans and their events.
const (
	spanKey      = attribute.Key("retrysafe.key.digest")
	spanFence    = attribute.Key("retrysafe.fence")
	spanAttempt  = attribute.Key("retrysafe.attempt")
	spanReplayed = attribute.Key("retrysafe.replayed")
	spanOutcome  = attribute.Key("retrysafe.outcome")
)

// mark adds an event to the request's span.
func (o *Observer) mark(ctx context.Context, e retrysafe.Event) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() || e.Kind == retrysafe.SweepEnded {
		return
	}
	attributes := attributesOf(e)
	span.AddEvent("retrysafe."+e.Kind.String(), trace.WithAttributes(attributes...))
	if requestOutcomes[e.Kind] == "" || e.Fence == 0 {
		return
	}
	span.AddLink(trace.Link{SpanContext: keyTrace(e, span.SpanContext()), Attributes: attributes})
	if e.Kind == retrysafe.AnswerReplayed || e.Kind == retrysafe.AnswerOmitted {
		span.SetAttributes(spanReplayed.Bool(true), spanAttempt.Int(e.Attempt))
		o.spanInKeyTrace(span.SpanContext(), e, "retrysafe replay").End()
	}
}

// attemptSpan starts the attempt's span in the key's trace.
func (o *Observer) attemptSpan(ctx context.Context, e retrysafe.Event) trace.Span {
	return o.spanInKeyTrace(trace.SpanContextFromContext(ctx), e, "retrysafe attempt")
}

// spanInKeyTrace starts a span that links to the request's. It returns a span that records nothing if the request's
// is not sampled.
func (o *Observer) spanInKeyTrace(request trace.SpanContext, e retrysafe.Event, name string) trace.Span {
	if !request.IsValid() || !request.IsSampled() {
		return trace.SpanFromContext(context.Background())
	}
	parent := trace.ContextWithRemoteSpanContext(context.Background(), keyTrace(e, request))
	_, span := o.tracer.Start(parent, name,
		trace.WithAttributes(attributesOf(e)...), trace.WithLinks(trace.Link{SpanContext: request}))
	return span
}

func endSpan(span trace.Span, outcome string) {
	span.SetAttributes(spanOutcome.String(outcome))
	switch outcome {
	case "unknown", leaseLost, givenUp:
		span.SetStatus(codes.Error, outcome)
	}
	span.End()
}

// keyTrace returns the span context of an attempt in the key's trace. It can be computed anywhere: the trace ID is
// the key's digest, and the span ID, which is the parent of the attempt's spans, is the fence.
func keyTrace(e retrysafe.Event, request trace.SpanContext) trace.SpanContext {
	var id trace.SpanID
	binary.BigEndian.PutUint64(id[:], uint64(e.Fence))
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID:    trace.TraceID(e.Key.Digest()),
		SpanID:     id,
		TraceFlags: request.TraceFlags(),
		Remote:     true,
	})
}

// attributesOf returns the attributes of an event: of the key only its digest, and no error, whose text may hold
// anything.
func attributesOf(e retrysafe.Event) []attribute.KeyValue {
	return []attribute.KeyValue{
		spanKey.String(e.Key.String()),
		spanFence.Int64(e.Fence),
		spanAttempt.Int(e.Attempt),
	}
}
