// Package otelsafe tells OpenTelemetry what a Guard does and what its Store holds.
//
//	observer, err := otelsafe.New(otelsafe.Options{})            // metrics and traces of what happens
//	measured, err := otelsafe.Instrument(store, otelsafe.Options{}) // how long the store takes
//	stop, err := otelsafe.WatchStore(store, otelsafe.WatchOptions{}) // what it holds: read when metrics are collected
//	defer stop()
//	guard := retrysafe.New(measured, retrysafe.Options{Observer: observer})
//
// What crosses services has observers of its own: NewClientObserver for the client of httpsafe, NewOutboxObserver and WatchOutbox for an
// outbox and its relays, NewQueueObserver for consumers of messages.
//
// It needs the API of OpenTelemetry only; the program chooses SDK and exporters. docs/metrics.md of the repository lists
// every metric, and what to do about it.
//
// No attribute is ever made of a key's ID, a scope or an owner. Spans carry the key's digest, metrics not even that.
//
// # Traces
//
// The active span of a request gets an event for everything that happens to it, and on a replay the attribute
// retrysafe.replayed. Besides, each key has a trace of its own: its trace ID is the key's digest. Every attempt at the key
// is a span in it, every replay too, each with a link to the span of the request that it served; and that span has a
// link back. So one gets from a replay to the request that did the work, across processes and machines, without
// anything being stored for it. The parent ID of those spans is the attempt's fence. Requests whose span is not sampled
// leave no trace there.
//
// # Design
//
//   - This package imports the packages whose events it reads, because events are structs, which local interfaces
//     cannot describe. Those packages belong to the root module, so that a program which measures one of them requires
//     nothing more.
//   - No label is unbounded: topics, consumers and operations go through one list of at most 100 names.
package otelsafe
