// Package otelsafe exports what a Guard does, and what its Store holds, to OpenTelemetry.
//
//	guard, stop, err := otelsafe.NewGuard(store, retrysafe.Options{}, otelsafe.Options{}) // instead of retrysafe.New
//	if err != nil {
//		return err
//	}
//	defer stop()
//
// NewGuard calls New (metrics and traces of what happens), Instrument (how long the store takes), WatchStore (what it
// holds, read when metrics are collected) and WatchGuard (what waits to be saved). Middleware of this Guard is measured
// with it. Options.OperationFunc names operations, such as routes. All functions return the error of the MeterProvider
// if it cannot create an instrument.
//
// NewClientObserver measures clients, NewOutboxObserver and WatchOutbox an outbox and its relays, NewQueueObserver
// consumers of messages.
//
// The package needs only the API of OpenTelemetry; the program chooses SDK and exporters. docs/metrics.md of the
// repository lists every metric, and what to do about it.
//
// No attribute contains a key's ID, a scope or an owner. Spans have the key's digest; metrics do not even have that.
//
// # Traces
//
// The active span of a request gets an event for each Event, and on a replay the attribute retrysafe.replayed. In
// addition each key has a trace of its own, whose trace ID is the key's digest. Each attempt and each replay is a
// span in that trace, with a link to the span of its request, which has a link back. The links lead from a replay to
// the request that did the work, across processes and machines, although nothing is stored for it. The parent ID of
// these spans is the attempt's fence. Requests whose span is not sampled leave no span in the key's trace.
//
// design.md in the folder of this package says why it is built so and what its files are.
package otelsafe
