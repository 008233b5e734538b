package otelsafe

import (
	"context"

	"github.com/retrysafe/retrysafe/queuesafe"
	"go.opentelemetry.io/otel/metric"
)

// QueueObserver is a queuesafe.Observer that measures deliveries. One may serve several Consumers: their names become
// the attribute "consumer". It uses neither keys nor sources.
type QueueObserver struct {
	deliveries metric.Float64Histogram
	failures   metric.Int64Counter
	consumers  *operations
}

var _ queuesafe.Observer = (*QueueObserver)(nil)

// NewQueueObserver returns an observer for queuesafe.Options.Observer. It uses only the MeterProvider of o, and
// returns its error if it cannot make an instrument.
func NewQueueObserver(o Options) (*QueueObserver, error) {
	m := meterOf(o.MeterProvider)
	observer := &QueueObserver{
		deliveries: m.histogram("retrysafe.queue.delivery.duration",
			"How long it took to decide on a delivery, by situation and action.", workBounds()),
		failures: m.counter("retrysafe.queue.failures", "{failure}",
			"Failed calls to a broker, and lost connections to it, by kind."),
	}
	if m.err != nil {
		return nil, m.err
	}
	observer.consumers = newOperations(attrConsumer, nameless, observer.zero)
	return observer, nil
}

// zero exports a consumer's counters before there is something to count.
func (q *QueueObserver) zero(consumer *operation) {
	for _, kind := range []queuesafe.EventKind{queuesafe.ExtendFailed, queuesafe.SettleFailed, queuesafe.Disconnected} {
		q.failures.Add(context.Background(), 0, consumer.with(attrKind.String(kind.String())).add...)
	}
}

// Observe implements queuesafe.Observer.
func (q *QueueObserver) Observe(ctx context.Context, e queuesafe.Event) {
	consumer := q.consumers.named(e.Consumer)
	switch e.Kind {
	case queuesafe.Handled:
		d := e.Disposition
		l := consumer.with(attrSituation.String(d.Situation.String()), attrAction.String(d.Action.String()))
		q.deliveries.Record(ctx, e.Took.Seconds(), l.record...)
	case queuesafe.ExtendFailed, queuesafe.SettleFailed, queuesafe.Disconnected:
		q.failures.Add(ctx, 1, consumer.with(attrKind.String(e.Kind.String())).add...)
	case queuesafe.Connected: // naming the consumer above exports its counters
	}
}
