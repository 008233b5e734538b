// Package otelsafe exports what a Guard does, and what its Store holds, to OpenTelemetry.
//
//	observer, err := otelsafe.New(otelsafe.Options{})            // metrics and traces of what happens
//	measured, err := otelsafe.Instrument(store, otelsafe.Options{}) // how long the store takes
//	stop, err := otelsafe.WatchStore(store, otelsafe.WatchOptions{}) // what it holds: read when metrics are collected
//	defer stop()
//	guard := retrysafe.New(measured, retrysafe.Options{Observer: observer})
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
// # Files
//
//   - observer.go, outcomes.go, running.go, spans.go: the Observer of a Guard
//   - store.go: Instrument
//   - watch.go, watchstore.go, reading.go, gauges.go: WatchStore
//   - outbox.go, queue.go, client.go: observers for outboxes, consumers and clients
//   - operation.go, maker.go, options.go: attributes with a bounded number of values, instruments, Options
//
// # Design
//
//   - This package imports the packages whose events it reads, because events are structs, which local interfaces
//     cannot describe. Those packages belong to the root module, so that a program which measures one of them requires
//     nothing more.
//   - No label is unbounded: topics, consumers and operations go through one list of at most 100 names.
package otelsafe
