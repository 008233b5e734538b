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
	// MeterProvider that metrics go to. Default: otel.GetMeterProvider().
	MeterProvider metric.MeterProvider
	// Name of the outbox, the one that WatchOptions has for it: the attribute "outbox" of all metrics. Give one if the program has
	// several outboxes. Default: none has one.
	Name string
	// TopicFunc names what a message's topic belongs to. The name becomes the attribute "topic", so there must be few: after 100
	// different ones, further ones are called "other". A function that returns its argument will do if topics are names that the
	// program chooses, and not URLs or customers. Empty: no attribute. Default: none has one.
	TopicFunc func(topic string) string
}

// OutboxObserver counts what a Relay tells of. One may serve several of one outbox. It uses no message's key.
type OutboxObserver struct {
	outboxInstruments
	topicFunc func(string) string
	topics    *operations
	plain     labels // of what has no topic
}

var _ outbox.Observer = (*OutboxObserver)(nil)

type outboxInstruments struct {
	deliveries, leasesLost, swept, databaseFailures metric.Int64Counter
	delay, batches                                  metric.Float64Histogram
	batchSize                                       metric.Int64Histogram
}

// NewOutboxObserver returns an observer for outbox.RelayOptions. It returns an error if the MeterProvider does not make an instrument.
func NewOutboxObserver(o OutboxOptions) (*OutboxObserver, error) {
	m := meterOf(o.MeterProvider)
	named := outboxNamed(o.Name)
	observer := &OutboxObserver{topicFunc: o.TopicFunc, plain: label(named...), outboxInstruments: outboxInstruments{
		deliveries: m.counter("retrysafe.outbox.deliveries", "{delivery}",
			"Tries at sending a message by what became of it: sent, failed (it is tried again), dead (a dead letter)."),
		leasesLost: m.counter("retrysafe.outbox.leases_lost", "{message}",
			"Messages that another relay took because this one's lease had run out: they may be sent twice."),
		swept: m.counter("retrysafe.outbox.swept", "{message}", "Sent messages that were deleted after their retention."),
		databaseFailures: m.counter("retrysafe.outbox.database.failures", "{failure}",
			"How often the database could not be asked; it was tried again."),
		delay: m.histogram("retrysafe.outbox.delivery.delay",
			"How long messages that were sent had been saved by then.", delayBounds()),
		batches: m.histogram("retrysafe.outbox.batch.duration", "How long the sink took for a batch.", workBounds()),
		batchSize: m.sizes("retrysafe.outbox.batch.size", "{message}", "How many messages a batch had.",
			[]float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000}),
	}}
	if m.err != nil {
		return nil, m.err
	}
	var ask func(context.Context) string
	if o.TopicFunc != nil {
		ask = nameless
	}
	observer.topics = newOperations(attrTopic, ask, observer.zero, named...)
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

// zero makes a topic's counters known before there is something to count.
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

// WatchOutbox reads what an outbox holds when metrics are collected, as WatchStore does with a store: how far the relays lag
// behind, messages by state, dead letters. Each process that watches reads for itself, and all tell the same. Several outboxes are
// told apart by WatchOptions.Name. Call stop before the database is closed. WatchOutbox returns an error if the MeterProvider does not make an instrument.
func WatchOutbox(box OutboxStatser, o WatchOptions) (stop func() error, err error) {
	m := meterOf(o.MeterProvider)
	g := outboxGauges{
		named: outboxNamed(o.Name),
		up:    m.observed("retrysafe.outbox.up", "", "Whether the outbox could be read for these metrics: 1 or 0."),
		lag: m.observedSeconds("retrysafe.outbox.lag",
			"How long ago the oldest message was saved that is neither sent nor a dead letter; 0 if there is none."),
		messages: m.observed("retrysafe.outbox.messages", "{message}", "Messages that are not sent by state."),
		tries:    m.observed("retrysafe.outbox.most_tries", "{try}", "Tries at the message that is pending and was tried most often."),
	}
	w := &watch[outbox.Stats]{what: "the outbox", options: o.withDefaults(), read: box.Stats, show: g.show}
	return w.start(m, []metric.Observable{g.up, g.lag, g.messages, g.tries})
}

// outboxGauges show an outbox's Stats.
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
