package client

import (
	"context"
	"time"
)

// Observer is told what happens to a client's requests. It is called by many goroutines at once and must not block.
type Observer interface {
	Observe(ctx context.Context, e Event)
}

// ObserverFunc is a function that is an Observer.
type ObserverFunc func(ctx context.Context, e Event)

// Observe implements Observer.
func (f ObserverFunc) Observe(ctx context.Context, e Event) { f(ctx, e) }

// EventKind says what an Event is about.
type EventKind uint8

// The kinds of events.
const (
	// AttemptEnded: one attempt has been answered, or has failed.
	AttemptEnded EventKind = iota + 1
	// IntentUnknown: the caller gets Event.Unknown, an ErrOutcomeUnknown. Intents that were not sent again are told,
	// too.
	IntentUnknown
	// RetentionShort: the server at Origin keeps answers only for Event.Retention, by its own words, and
	// Options.Horizon is not below half of that. Until the process ends, the client uses half of it as its horizon for
	// this server. It is told once for each server: set Options.Retention, so that Validate checks the Horizon.
	RetentionShort
)

// Event tells of one attempt, or of an intent whose outcome stays unknown. It holds neither key nor body.
type Event struct {
	Kind EventKind
	// Key is the digest of the key, see OutcomeUnknownError.
	Key string
	// Method of the request: "POST", or the full name of a gRPC method such as "/shop.v1.Payments/Create".
	Method string
	// Origin is the server: scheme and host of a URL, or a gRPC channel's target.
	Origin string
	// Attempt counts from 1 in this process. Replies that were followed at once (307, 308, 401) count with the attempt.
	Attempt int
	// Status of an HTTP answer; 0 if there was none.
	Status int
	// Code of a gRPC answer, such as "OK" or "UNAVAILABLE"; empty over HTTP.
	Code string
	// Err is what the attempt failed with.
	Err error
	// Signal is the row of the table in docs/client.md or docs/grpc.md that decided, such as "in-flight".
	Signal string
	// Retried says that another attempt follows, after Wait.
	Retried bool
	Wait    time.Duration
	// Took is how long the attempt took.
	Took time.Duration
	// Retention of the server, in events of kind RetentionShort.
	Retention time.Duration
	// Unknown is the error that the caller gets, in events of kind IntentUnknown.
	Unknown *OutcomeUnknownError
}

// observe tells the observer of the call.
func (c *call) observe(e Event) {
	if o := c.e.options.Observer; o != nil {
		e.Key, e.Method, e.Origin, e.Attempt = c.entry.ID, c.request.Method, c.request.Origin, c.attempts
		o.Observe(c.ctx, e)
	}
}

// report tells of an attempt that ended with r.
func (c *call) report(r Reply, took time.Duration, retried bool, wait time.Duration) {
	c.observe(Event{
		Kind: AttemptEnded, Status: r.Status, Code: r.Code, Err: r.Err, Signal: r.Signal.Name, Retried: retried,
		Wait: wait, Took: took,
	})
}
