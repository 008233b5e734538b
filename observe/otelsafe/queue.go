package otelsafe

import (
	"context"

	"github.com/retrysafe/retrysafe/queuesafe"
	"go.opentelemetry.io/otel/metric"
)

// QueueObserver measures what Consumers of queuesafe tell of. One may serve several: their names become the attribute "consumer". It uses neither
// keys nor sources.
type QueueObserver struct {
	deliveries metric.Float64Histogram
	failures   metric.Int64Counter
	consumers  *operations
}

// NewQueueObserver returns an observer for the Options of a queuesafe.Consumer, whose field Observer gets its method Observe. Of o it uses the
// MeterProvider. It returns an error if that does not make an instrument.
func NewQueueObserver(o Options) (*QueueObserver, error) {
	m := meterOf(o.MeterProvider)
	observer := &QueueObserver{
		deliveries: m.histogram("retrysafe.queue.delivery.duration",
			"How long deliveries took until it was decided what becomes of the message, by situation and action.", workBounds()),
		failures: m.counter("retrysafe.queue.failures", "{failure}",
			"What a broker could not be told, and connections to it that were lost, by kind."),
	}
	if m.err != nil {
		return nil, m.err
	}
	observer.consumers = newOperations(attrConsumer, nameless, observer.zero)
	return observer, nil
}

// zero makes a consumer's counters known before there is something to count.
func (q *QueueObserver) zero(consumer *operation) {
	for _, kind := range []queuesafe.EventKind{queuesafe.ExtendFailed, queuesafe.SettleFailed, queuesafe.Disconnected} {
		q.failures.Add(context.Background(), 0, consumer.with(attrKind.String(kind.String())).add...)
	}
}

// Observe is a queuesafe.Observer.
func (q *QueueObserver) Observe(ctx context.Context, e queuesafe.Event) {
	consumer := q.consumers.named(e.Consumer)
	switch e.Kind {
	case queuesafe.Handled:
		d := e.Disposition
		l := consumer.with(attrSituation.String(d.Situation.String()), attrAction.String(d.Action.String()))
		q.deliveries.Record(ctx, e.Took.Seconds(), l.record...)
	case queuesafe.ExtendFailed, queuesafe.SettleFailed, queuesafe.Disconnected:
		q.failures.Add(ctx, 1, consumer.with(attrKind.String(e.Kind.String())).add...)
	case queuesafe.Connected: // makes the consumer known
	}
}
