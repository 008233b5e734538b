package otelsafe

import (
	"context"
	"errors"
	"time"

	"github.com/retrysafe/retrysafe"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// Observer is a retrysafe.Observer that counts and traces the events of Guards. One may serve several Guards.
type Observer struct {
	instruments
	operations *operations
	running    running
	tracer     trace.Tracer
}

var _ retrysafe.Observer = (*Observer)(nil)

// instruments of an Observer.
type instruments struct {
	requests         metric.Int64Counter
	attempts         metric.Float64Histogram
	inFlight         metric.Int64UpDownCounter
	zombies          metric.Int64Counter
	uncompleted      metric.Int64Counter
	discarded        metric.Int64Counter
	saves            metric.Int64Counter
	storeFailures    metric.Int64Counter
	incomparable     metric.Int64Counter
	decisions        metric.Int64Counter
	sweeps           metric.Float64Histogram
	sweptRecords     metric.Int64Counter
	lastSweep        metric.Int64Gauge
	swept, unswept   labels
	resolved, purged labels
	reopened         labels
}

// New returns an Observer. It returns the error of the MeterProvider if it cannot create an instrument.
func New(o Options) (*Observer, error) {
	m := meterOf(o.MeterProvider)
	observer := &Observer{instruments: newInstruments(m), tracer: o.tracer()}
	if m.err != nil {
		return nil, m.err
	}
	observer.operations = newOperations(attrOperation, o.OperationFunc, observer.zero)
	observer.sweptRecords.Add(context.Background(), 0)
	for _, decision := range []labels{observer.resolved, observer.purged, observer.reopened} {
		observer.decisions.Add(context.Background(), 0, decision.add...)
	}
	return observer, nil
}

func newInstruments(m *maker) instruments {
	return instruments{
		requests: m.counter("retrysafe.requests", "{request}", "Requests by outcome."),
		attempts: m.histogram("retrysafe.attempt.duration",
			"How long attempts took, from the claim until their end was saved, by outcome.", workBounds()),
		inFlight: m.upDownCounter("retrysafe.attempts.in_flight", "{attempt}",
			"Attempts whose lease this process extends: their work runs, or their end is being saved."),
		zombies: m.counter("retrysafe.zombies", "{attempt}",
			"Attempts that another attempt took over while they worked: nothing they did since then is saved."),
		uncompleted: m.counter("retrysafe.completions.missing", "{attempt}",
			"Attempts that have succeeded without the completion that another process should have committed with its work."),
		discarded: m.counter("retrysafe.answers.discarded", "{attempt}",
			"Attempts whose work completed its key in its own transaction and then answered that it had failed, or went on "+
				"writing: callers get the answer that was committed."),
		saves: m.counter("retrysafe.saves", "{save}",
			"Ends and steps of attempts whose saving failed: failed; and what happened to those ends afterwards: "+
				"saved_late, given_up."),
		storeFailures: m.counter("retrysafe.store.failures", "{request}", "Requests for which the store failed."),
		incomparable: m.counter("retrysafe.fingerprints.incomparable", "{request}",
			"Retries whose fingerprint was made by another algorithm than the record's, so that a mismatch could not "+
				"be detected."),
		decisions: m.counter("retrysafe.decisions", "{key}", "Keys that a person has resolved, purged or reopened."),
		sweeps:    m.histogram("retrysafe.sweep.duration", "How long background sweeps took.", workBounds()),
		sweptRecords: m.counter("retrysafe.sweep.records", "{record}",
			"Records that background sweeps have removed or whose body they have dropped."),
		lastSweep: m.gauge("retrysafe.sweep.last_success", "s",
			"Unix time at which this process last found nothing more to sweep."),
		swept:    label(attrOutcome.String("succeeded")),
		unswept:  label(attrOutcome.String("failed")),
		resolved: label(attrOutcome.String("resolved")),
		purged:   label(attrOutcome.String("purged")),
		reopened: label(attrOutcome.String("reopened")),
	}
}

// zero exports an operation's counters before there is something to count, so that queries for an increase see the
// first one.
func (o *Observer) zero(op *operation) {
	ctx := context.Background()
	for _, outcome := range requestOutcomes {
		o.requests.Add(ctx, 0, op.outcome(outcome).add...)
	}
	for _, outcome := range saveOutcomes {
		o.saves.Add(ctx, 0, op.outcome(outcome).add...)
	}
	for _, c := range []metric.Int64Counter{o.zombies, o.uncompleted, o.discarded, o.storeFailures, o.incomparable} {
		c.Add(ctx, 0, op.plain.add...)
	}
	o.inFlight.Add(ctx, 0, op.plain.add...)
}

// Observe implements retrysafe.Observer.
func (o *Observer) Observe(ctx context.Context, e retrysafe.Event) {
	o.mark(ctx, e)
	switch e.Kind {
	case retrysafe.AttemptStarted, retrysafe.AttemptResumed:
		o.request(ctx, e)
		o.start(ctx, e)
	case retrysafe.WorkSucceeded, retrysafe.WorkFailed, retrysafe.WorkReleased, retrysafe.WorkUnknown,
		retrysafe.LeaseTaken:
		o.end(ctx, e, attemptOutcomes[e.Kind])
	case retrysafe.SaveFailed:
		o.saves.Add(ctx, 1, o.operations.of(ctx).outcome(saveFailed).add...)
	case retrysafe.SavedLate:
		o.saves.Add(ctx, 1, o.operations.of(ctx).outcome(savedLate).add...)
		o.end(ctx, e, savedLate)
	case retrysafe.SaveAbandoned:
		o.saves.Add(ctx, 1, o.operations.of(ctx).outcome(givenUp).add...)
		o.end(ctx, e, endOfGivenUp(e.Err))
	case retrysafe.CompletionMissing:
		o.uncompleted.Add(ctx, 1, o.operations.of(ctx).plain.add...)
	case retrysafe.AnswerDiscarded:
		o.discarded.Add(ctx, 1, o.operations.of(ctx).plain.add...)
	case retrysafe.StoreFailed:
		o.storeFailed(ctx)
	case retrysafe.FingerprintIncomparable:
		o.incomparable.Add(ctx, 1, o.operations.of(ctx).plain.add...)
	case retrysafe.KeyResolved:
		o.decisions.Add(ctx, 1, o.resolved.add...)
	case retrysafe.KeyPurged:
		o.decisions.Add(ctx, 1, o.purged.add...)
	case retrysafe.KeyReopened:
		o.decisions.Add(ctx, 1, o.reopened.add...)
	case retrysafe.SweepEnded:
		o.sweepEnded(ctx, e)
	default:
		o.request(ctx, e)
	}
}

// request counts a request by its outcome. Kinds that are not about the outcome of a request are not counted.
func (o *Observer) request(ctx context.Context, e retrysafe.Event) {
	if outcome := requestOutcomes[e.Kind]; outcome != "" {
		o.requests.Add(ctx, 1, o.operations.of(ctx).outcome(outcome).add...)
	}
}

func (o *Observer) start(ctx context.Context, e retrysafe.Event) {
	op := o.operations.of(ctx)
	o.running.add(e, attempt{operation: op, span: o.attemptSpan(ctx, e)})
	o.inFlight.Add(ctx, 1, op.plain.add...)
}

// end records the end of an attempt. The end of a zombie may be reported twice, when its heartbeat finds that the
// lease is lost and when its work ends; the first report counts.
func (o *Observer) end(ctx context.Context, e retrysafe.Event, outcome string) {
	a, ok := o.running.remove(e)
	if !ok {
		return
	}
	if outcome == leaseLost {
		o.zombies.Add(ctx, 1, a.operation.plain.add...)
	}
	o.inFlight.Add(ctx, -1, a.operation.plain.add...)
	o.attempts.Record(ctx, e.Took.Seconds(), a.operation.outcome(outcome).record...)
	endSpan(a.span, outcome)
}

// storeFailed counts a failure of the store, unless the request's context has ended.
func (o *Observer) storeFailed(ctx context.Context) {
	if ctx.Err() == nil {
		o.storeFailures.Add(ctx, 1, o.operations.of(ctx).plain.add...)
	}
}

func (o *Observer) sweepEnded(ctx context.Context, e retrysafe.Event) {
	o.sweptRecords.Add(ctx, int64(e.Count))
	if e.Err != nil {
		o.sweeps.Record(ctx, e.Took.Seconds(), o.unswept.record...)
		return
	}
	o.sweeps.Record(ctx, e.Took.Seconds(), o.swept.record...)
	o.lastSweep.Record(ctx, time.Now().Unix())
}

func endOfGivenUp(err error) string {
	if errors.Is(err, retrysafe.ErrLeaseLost) {
		return leaseLost
	}
	return givenUp
}
