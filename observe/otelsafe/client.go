package otelsafe

import (
	"context"

	"github.com/retrysafe/retrysafe/client"
	"go.opentelemetry.io/otel/metric"
)

// ClientObserver measures attempts and unknown outcomes of clients. It is a client.Observer; one may serve several
// clients.
type ClientObserver struct {
	attempts   metric.Float64Histogram
	waits      metric.Float64Histogram
	unknown    metric.Int64Counter
	operations *operations
}

// NewClientObserver returns an observer for client.Options, whatever the transport:
//
//	seen, err := otelsafe.NewClientObserver(otelsafe.Options{})
//	httpclient.Options{Options: client.Options{Observer: seen}}
//
// OperationFunc is asked with the request's context; there are no traces. It returns an error if the MeterProvider
// does not make an instrument.
func NewClientObserver(o Options) (*ClientObserver, error) {
	m := meterOf(o.MeterProvider)
	observer := &ClientObserver{
		attempts: m.histogram("retrysafe.client.attempt.duration",
			"How long attempts of the client took, by what their answer meant: the rows of the tables in "+
				"docs/client.md and docs/grpc.md.", workBounds()),
		waits: m.histogram("retrysafe.client.retry.wait",
			"How long the client waited before another attempt, by what the answer before it meant: one for each "+
				"retry.", workBounds()),
		unknown: m.counter("retrysafe.client.outcomes_unknown", "{intent}",
			"Intents whose outcome is unknown, by why the client stopped asking."),
	}
	if m.err != nil {
		return nil, m.err
	}
	observer.operations = newOperations(attrOperation, o.OperationFunc, observer.zero)
	return observer, nil
}

// zero makes an operation's counters known before there is something to count.
func (c *ClientObserver) zero(op *operation) {
	for _, why := range []string{
		client.GaveUpAttempts, client.GaveUpInFlight, client.GaveUpBudget, client.GaveUpHorizon, client.GaveUpRetryAfter,
		client.GaveUpContext, client.GaveUpAnswer, client.GaveUpRefused, client.GaveUpJournal,
	} {
		c.unknown.Add(context.Background(), 0, op.with(attrWhy.String(why)).add...)
	}
}

// Observe implements client.Observer.
func (c *ClientObserver) Observe(ctx context.Context, e client.Event) {
	switch e.Kind {
	case client.IntentUnknown:
		c.unknown.Add(ctx, 1, c.operations.of(ctx).with(attrWhy.String(e.Unknown.Why)).add...)
		return
	case client.RetentionShort: // no attempt
		return
	}
	l := c.operations.of(ctx).with(attrSignal.String(e.Signal))
	c.attempts.Record(ctx, e.Took.Seconds(), l.record...)
	if e.Retried {
		c.waits.Record(ctx, e.Wait.Seconds(), l.record...)
	}
}
