package otelsafe

import (
	"context"
	"time"

	"github.com/retrysafe/retrysafe/outbox"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// OutboxOptions of NewOutboxObserver.
type OutboxOptions struct {
	// MeterProvider creates the instruments. Default: otel.GetMeterProvider().
	MeterProvider metric.MeterProvider
	// Name is the attribute "outbox" of all metrics. Set it, to the same as WatchOptions.Name, if the program has
	// several outboxes. Default: no attribute.
	Name string
	// TopicFunc returns the attribute "topic" for a message's topic. There must be few: after 100 different ones, all
	// further ones are "other". It may return its argument if the program chooses the topics, and they are not URLs
	// or customers. Empty: no attribute. Default: no attribute.
	TopicFunc func(topic string) string
}

// OutboxObserver is an outbox.Observer that counts the events of Relays. One may serve several Relays of one outbox.
// It does not use the keys of messages.
type OutboxObserver struct {
	outboxInstruments
	topicFunc func(string) string
	topics    *operations
	plain     labels // without a topic
}

var _ outbox.Observer = (*OutboxObserver)(nil)

type outboxInstruments struct {
	deliveries, leasesLost, swept, databaseFailures metric.Int64Counter
	delay, batches                                  metric.Float64Histogram
	batchSize                                       metric.Int64Histogram
}

// NewOutboxObserver returns an observer for outbox.RelayOptions. It returns the error of the MeterProvider if it
// cannot create an instrument.
func NewOutboxObserver(o OutboxOptions) (*OutboxObserver, error) {
	m := meterOf(o.MeterProvider)
	named := outboxNamed(o.Name)
	observer := &OutboxObserver{topicFunc: o.TopicFunc, plain: label(named...), outboxInstruments: outboxInstruments{
		deliveries: m.counter("retrysafe.outbox.deliveries", "{delivery}",
			"Tries at sending a message by outcome: sent, failed (it is retried), dead (a dead letter)."),
		leasesLost: m.counter("retrysafe.outbox.leases_lost", "{message}",
			"Messages that another relay took after its lease had ended: they may be sent twice."),
		swept: m.counter("retrysafe.outbox.swept", "{message}", "Sent messages that were deleted after their retention."),
		databaseFailures: m.counter("retrysafe.outbox.database.failures", "{failure}",
			"Failed calls to the database, which are retried."),
		delay: m.histogram("retrysafe.outbox.delivery.delay",
			"Time from saving a message until it was sent.", delayBounds()),
		batches: m.histogram("retrysafe.outbox.batch.duration", "How long the sink took for a batch.", workBounds()),
		batchSize: m.sizes("retrysafe.outbox.batch.size", "{message}", "How many messages a batch had.",
			[]float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000}),
	}}
	if m.err != nil {
		return nil, m.err
	}
	var nameOf func(context.Context) string
	if o.TopicFunc != nil {
		nameOf = nameless
	}
	observer.topics = newOperations(attrTopic, nameOf, observer.zero, named...)
	ctx := context.Background()
	for _, c := range []metric.Int64Counter{observer.leasesLost, observer.swept, observer.databaseFailures} {
		c.Add(ctx, 0, observer.plain.add...)
	}
	return observer, nil
}

// outboxNamed returns the attribute of an outbox that has a name.
func outboxNamed(name string) []attribute.KeyValue {
	if name == "" {
		return nil
	}
	return []attribute.KeyValue{attrOutbox.String(name)}
}

// zero exports a topic's counters before there is something to count.
func (o *OutboxObserver) zero(topic *operation) {
	for _, outcome := range []string{deliverySent, deliveryFailed, deliveryDead} {
		o.deliveries.Add(context.Background(), 0, topic.with(attrOutcome.String(outcome)).add...)
	}
}

// Outcomes of deliveries.
const (
	deliverySent   = "sent"
	deliveryFailed = "failed"
	deliveryDead   = "dead"
)

// Observe implements outbox.Observer.
func (o *OutboxObserver) Observe(ctx context.Context, e outbox.Event) {
	switch e.Kind {
	case outbox.MessageSent:
		o.delivery(ctx, e, deliverySent)
		o.delay.Record(ctx, (e.Age + e.Took).Seconds(), o.topic(e).plain.record...)
	case outbox.MessageFailed:
		o.delivery(ctx, e, deliveryFailed)
	case outbox.MessageDead:
		o.delivery(ctx, e, deliveryDead)
	case outbox.BatchEnded:
		o.batches.Record(ctx, e.Took.Seconds(), o.plain.record...)
		o.batchSize.Record(ctx, int64(e.Count), o.plain.record...)
	case outbox.LeaseLost:
		o.leasesLost.Add(ctx, int64(e.Count), o.plain.add...)
	case outbox.SweepEnded:
		o.swept.Add(ctx, int64(e.Count), o.plain.add...)
	case outbox.DatabaseFailed:
		o.databaseFailures.Add(ctx, 1, o.plain.add...)
	}
}

func (o *OutboxObserver) delivery(ctx context.Context, e outbox.Event, outcome string) {
	o.deliveries.Add(ctx, 1, o.topic(e).with(attrOutcome.String(outcome)).add...)
}

func (o *OutboxObserver) topic(e outbox.Event) *operation {
	if o.topicFunc == nil {
		return o.topics.named("")
	}
	return o.topics.named(o.topicFunc(e.Topic))
}

// OutboxStatser is what WatchOutbox reads: an *outbox.Outbox.
type OutboxStatser interface {
	Stats(ctx context.Context) (outbox.Stats, error)
}

// WatchOutbox reads what an outbox holds when metrics are collected, as WatchStore does for a store: how far the
// relays lag behind, messages by state, dead letters. Each process that watches reads for itself, and all report the
// same. WatchOptions.Name distinguishes several outboxes. Call stop before the database is closed; its error is that
// of unregistering. WatchOutbox returns the error of the MeterProvider if it cannot create an instrument.
func WatchOutbox(box OutboxStatser, o WatchOptions) (stop func() error, err error) {
	m := meterOf(o.MeterProvider)
	g := outboxGauges{
		named: outboxNamed(o.Name),
		up:    m.observed("retrysafe.outbox.up", "", "Whether the outbox could be read for these metrics: 1 or 0."),
		lag: m.observedSeconds("retrysafe.outbox.lag",
			"How long ago the oldest message was saved that is neither sent nor a dead letter; 0 if there is none."),
		messages: m.observed("retrysafe.outbox.messages", "{message}", "Messages that are not sent by state."),
		tries: m.observed("retrysafe.outbox.most_tries", "{try}",
			"Tries at the pending message that was tried most often."),
	}
	w := &watch[outbox.Stats]{what: "the outbox", options: o.withDefaults(), read: box.Stats, show: g.show}
	return w.start(m, []metric.Observable{g.up, g.lag, g.messages, g.tries})
}

// outboxGauges export an outbox's Stats.
type outboxGauges struct {
	up, messages, tries metric.Int64ObservableGauge
	lag                 metric.Float64ObservableGauge
	named               []attribute.KeyValue
}

func (g outboxGauges) show(to metric.Observer, s outbox.Stats, at time.Time, failed bool) {
	plain := metric.WithAttributes(g.named...)
	switch {
	case failed:
		to.ObserveInt64(g.up, 0, plain)
		return
	case at.IsZero():
		return
	}
	to.ObserveInt64(g.up, 1, plain)
	to.ObserveFloat64(g.lag, s.OldestAge.Seconds(), plain)
	to.ObserveInt64(g.tries, int64(s.MostTries), plain)
	for state, n := range map[string]int{
		"due": s.Due, "in_flight": s.InFlight, "waiting": s.Pending - s.Due - s.InFlight, "dead": s.Dead,
	} {
		to.ObserveInt64(g.messages, int64(n), plain, metric.WithAttributes(attrState.String(state)))
	}
}
