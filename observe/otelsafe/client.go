package otelsafe

import (
	"context"

	"github.com/retrysafe/retrysafe/client/httpclient"
	"go.opentelemetry.io/otel/metric"
)

// ClientObserver measures what a Transport of httpsafe, or a Client, tells of. One may serve several.
type ClientObserver struct {
	attempts   metric.Float64Histogram
	waits      metric.Float64Histogram
	unknown    metric.Int64Counter
	operations *operations
}

// NewClientObserver returns an observer for httpclient.TransportOptions:
//
//	seen, err := otelsafe.NewClientObserver(otelsafe.Options{})
//	httpclient.TransportOptions{ObserveFunc: seen.Attempt, UnknownFunc: seen.Unknown}
//
// OperationFunc is asked with the request's context; there are no traces. It returns an error if the MeterProvider does not make an
// instrument.
func NewClientObserver(o Options) (*ClientObserver, error) {
	m := meterOf(o.MeterProvider)
	observer := &ClientObserver{
		attempts: m.histogram("retrysafe.client.attempt.duration",
			"How long attempts of the client took, by what their answer meant: the rows of the table in docs/client.md.", workBounds()),
		waits: m.histogram("retrysafe.client.retry.wait",
			"How long the client waited before another attempt, by what the answer before it meant: one for each retry.", workBounds()),
		unknown: m.counter("retrysafe.client.outcomes_unknown", "{intent}",
			"Intents that ended without anybody knowing whether they ran, by why the client stopped asking."),
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
		httpclient.GaveUpAttempts, httpclient.GaveUpInFlight, httpclient.GaveUpBudget, httpclient.GaveUpHorizon, httpclient.GaveUpRetryAfter,
		httpclient.GaveUpContext, httpclient.GaveUpAnswer, httpclient.GaveUpRefused, httpclient.GaveUpJournal,
	} {
		c.unknown.Add(context.Background(), 0, op.with(attrWhy.String(why)).add...)
	}
}

// Attempt is an ObserveFunc.
func (c *ClientObserver) Attempt(ctx context.Context, r httpclient.AttemptReport) {
	l := c.operations.of(ctx).with(attrSignal.String(r.Signal))
	c.attempts.Record(ctx, r.Took.Seconds(), l.record...)
	if r.Retried {
		c.waits.Record(ctx, r.Wait.Seconds(), l.record...)
	}
}

// Unknown is an UnknownFunc.
func (c *ClientObserver) Unknown(ctx context.Context, e *httpclient.OutcomeUnknownError) {
	c.unknown.Add(ctx, 1, c.operations.of(ctx).with(attrWhy.String(e.Why)).add...)
}
