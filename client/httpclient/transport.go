package httpclient

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/client"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/internal/keytext"
	"github.com/retrysafe/retrysafe/internal/retry"
)

// TransportOptions of a Transport. TransportOptions{} works: the IETF profile, four attempts, no journal.
type TransportOptions struct {
	// Profile of the server: which methods take a key, where it goes, how it is written, how the server words its
	// answers, how long it remembers. Default IETF(). See ProfileFromObserved.
	Profile httpsafe.Profile
	// Methods that get a key, instead of the profile's. Only those that the server guards: others are sent once.
	Methods []string
	// KeyFunc makes the key of a new intent. Default: random UUIDs (version 4).
	KeyFunc func() string
	// Base sends. Default http.DefaultTransport. It must send each request at most once; a net/http Transport does,
	// because of SendOnce.
	Base http.RoundTripper

	// RequireKey refuses with ErrKeyRequired to make up a random key. It is for services: a request that lacks the
	// context of the attempt it belongs to would get another random key when the attempt runs again, and so run twice.
	RequireKey bool

	// Attempts at one intent, the first included, in one process. Those that are told that another attempt is in flight
	// do not count: MaxInFlight bounds them. Default 4.
	Attempts int
	// MaxInFlight is how long an intent waits for another attempt that is in flight, from the first reply that says so.
	// It must outlast the server's lease, after which a server takes over from an attempt that has died. It never
	// outlasts the Horizon. Default 2 min.
	MaxInFlight time.Duration
	// Backoff is the upper bound of the random wait before the second attempt; it doubles with each attempt up to
	// MaxBackoff. Default 200 ms and 10 s.
	Backoff, MaxBackoff time.Duration
	// MaxRetryAfter is the longest Retry-After that is waited for. A server that asks for more is not asked again.
	// Default 60 s.
	MaxRetryAfter time.Duration
	// AttemptTimeout bounds one attempt, until its answer has been read as far as MaxResponse. Default 30 s;
	// negative: none.
	AttemptTimeout time.Duration
	// Retention is how long the server remembers a key, instead of the profile's.
	Retention time.Duration
	// Horizon is how long after its beginning an intent may still be sent, across restarts too. It must be below half
	// of Retention, because a server that has forgotten a key runs the operation again. Default: a third of Retention.
	Horizon time.Duration
	// Budget of retries, one for each origin.
	Budget RetryBudget

	// MaxBody bounds the body of a request with a key, in bytes: it is kept in memory to be sent again. Default 1 MiB.
	MaxBody int64
	// MaxResponse bounds what is read of an answer before the attempt counts as answered, in bytes, so that an answer
	// that breaks off is asked for again. More is streamed. Default 1 MiB; negative: nothing is read.
	MaxResponse int64

	// AuthorizeFunc puts the credential on each attempt. Default: the request has it already, and a 401 is final.
	AuthorizeFunc AuthorizeFunc
	// Journal keeps intents while their outcome is not known. Default: none; what a crash interrupts is forgotten. It
	// needs a Client, whose Resume sends again what was pending.
	Journal client.Journal
	// JournalHeaders are header fields that the journal keeps, beside Content-Type, Content-Encoding, Accept,
	// Accept-Language, If-Match, If-None-Match, Prefer and those with the key. Fields that hold a credential do not
	// belong here: AuthorizeFunc puts them on again.
	JournalHeaders []string
	// ObserveFunc is told of each attempt. It is called by many goroutines at once and must not block. Default: none.
	ObserveFunc func(ctx context.Context, r AttemptReport)
	// UnknownFunc is told of each intent that ends with ErrOutcomeUnknown, also of those that were not sent again: what the caller
	// gets, for metrics. It is called by many goroutines at once and must not block. Default: none.
	UnknownFunc func(ctx context.Context, e *OutcomeUnknownError)
}

// AuthorizeFunc puts a credential on a request that is about to be sent; r is the Transport's own. credential is what
// WithCredential named. refused says that the server has just answered 401: get a new credential of the same principal
// (that of another would make the key another key). It happens once an intent. An error ends the intent.
type AuthorizeFunc func(r *http.Request, credential string, refused bool) error

// AttemptReport tells how one attempt of a Transport went. It holds neither key nor body.
type AttemptReport struct {
	// Key is the digest of the key, see OutcomeUnknownError.
	Key string
	// Method and Origin (scheme and host) of the request.
	Method, Origin string
	// Attempt counts from 1 in this process. Answers that were followed (307, 308) count with the attempt.
	Attempt int
	// Status of the answer; 0 if there was none. Err says why.
	Status int
	Err    error
	// Signal is the row of the table in docs/client.md that decided, such as "in-flight".
	Signal string
	// Retried says that another attempt follows, after Wait.
	Retried bool
	Wait    time.Duration
	// Took is how long the attempt took.
	Took time.Duration
}

const (
	defaultAttempts       = 4
	defaultMaxInFlight    = 2 * time.Minute
	defaultBackoff        = 200 * time.Millisecond
	defaultMaxBackoff     = 10 * time.Second
	defaultMaxRetryAfter  = time.Minute
	defaultAttemptTimeout = 30 * time.Second
	defaultMaxExchange    = 1 << 20
)

// Transport is an http.RoundTripper that makes requests safe to retry, and retries them. A request of a guarded method
// gets a key, one for each intent, which all attempts at it share; its body is read once and sent as it was each time.
//
// What the server's answer means is in the table of docs/client.md. If it is unknown whether the operation ran, the
// error is an *OutcomeUnknownError: there is never a second key for the same intent.
//
// The key is, in this order: what the request brings; that of WithKey or WithIntent; inside an attempt of a Guard the
// child key, see WithOperation; a new one, unless RequireKey forbids it. The request given is not changed.
//
// Use it only with a server that honours keys: one that ignores them runs each attempt.
//
// A Transport is safe for concurrent use.
type Transport struct {
	options TransportOptions
	carrier keyCarrier
	signals []signal
	budgets budgets

	mu      sync.Mutex
	running map[string]int // intents of the journal that are on their way, by ID
}

// NewTransport returns a Transport, or an error that says what is wrong with o: a Horizon of half the server's retention
// or more, a retention that is not known, a KeyFunc whose keys do not have the form of the profile.
func NewTransport(o TransportOptions) (*Transport, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	return &Transport{
		options: o,
		carrier: newCarrier(o.Profile),
		signals: signals(),
		budgets: budgets{limit: o.Budget, all: map[string]*retry.Budget{}},
		running: map[string]int{},
	}, nil
}

func (o TransportOptions) withDefaults() TransportOptions {
	if o.Profile.Name == "" && o.Profile.Header == "" && o.Profile.BodyField == "" && o.Profile.QueryField == "" {
		o.Profile = httpsafe.IETF()
	}
	o.Profile.KeySyntax = o.Profile.KeySyntax.WithDefaults()
	if len(o.Methods) == 0 {
		o.Methods = o.Profile.Methods
	}
	if o.KeyFunc == nil {
		o.KeyFunc = keytext.RandomUUID
	}
	if o.Base == nil {
		o.Base = http.DefaultTransport
	}
	o.Attempts = orDefault(o.Attempts, defaultAttempts)
	o.MaxInFlight = orDefault(o.MaxInFlight, defaultMaxInFlight)
	o.Backoff = orDefault(o.Backoff, defaultBackoff)
	o.MaxBackoff = max(orDefault(o.MaxBackoff, defaultMaxBackoff), o.Backoff)
	o.MaxRetryAfter = orDefault(o.MaxRetryAfter, defaultMaxRetryAfter)
	o.AttemptTimeout = orDefault(o.AttemptTimeout, defaultAttemptTimeout)
	o.Retention = orDefault(o.Retention, o.Profile.Retention)
	o.Horizon = orDefault(o.Horizon, o.Retention/3)
	o.MaxBody = orDefault(o.MaxBody, defaultMaxExchange)
	o.MaxResponse = min(orDefault(o.MaxResponse, defaultMaxExchange), math.MaxInt64-1) // one more is read, to see the end
	o.Budget = o.Budget.withDefaults()
	return o
}

func (o TransportOptions) validate() error {
	switch {
	case o.Retention <= 0:
		return errors.New("httpsafe: say how long the server remembers a key: TransportOptions.Retention")
	case o.Horizon < 0 || o.Horizon >= o.Retention/2:
		return fmt.Errorf("httpsafe: a Horizon of %v is not below half of the server's retention of %v", o.Horizon, o.Retention)
	case o.Attempts < 0 || o.MaxInFlight < 0 || o.MaxBody < 0 || o.MaxBody == math.MaxInt64:
		return errors.New("httpsafe: Attempts, MaxInFlight and MaxBody must be positive")
	}
	for _, m := range o.Methods {
		if isSafe(m) {
			return fmt.Errorf("httpsafe: %s is a safe method: it takes no key", m)
		}
	}
	if err := newCarrier(o.Profile).check(o.KeyFunc()); err != nil {
		return fmt.Errorf("httpsafe: a key of KeyFunc does not fit profile %q (%v): %w", o.Profile.Name, o.Profile.KeySyntax, err)
	}
	return nil
}

// RoundTrip implements http.RoundTripper.
//
// Errors, beside those of the network: an error that is ErrOutcomeUnknown; one that is ErrNotReplayable, after which the
// operation has ended, but its answer was not kept; *KeyError for a key that does not have the profile's form;
// ErrKeyRequired; ErrBodyTooLarge; ErrRedirected; retrysafe.ErrMismatch for a key or an operation that was used for another
// request before. Unless the error is one of the first two, nothing was sent, or what was sent did not run.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !slices.Contains(t.options.Methods, r.Method) {
		return t.pass(r)
	}
	c, err := t.prepare(r)
	if err != nil {
		return nil, err
	}
	return t.run(c)
}

// pass sends a request that gets no key: once, if it may have an effect.
func (t *Transport) pass(r *http.Request) (*http.Response, error) {
	if r.Method == "" || isSafe(r.Method) {
		return t.options.Base.RoundTrip(r)
	}
	once := r.Clone(r.Context())
	SendOnce(once)
	return t.options.Base.RoundTrip(once)
}

// CloseIdleConnections closes the connections of Base that nothing uses.
func (t *Transport) CloseIdleConnections() {
	if base, ok := t.options.Base.(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

// run keeps the journal around the attempts.
func (t *Transport) run(c *call) (*http.Response, error) {
	if t.options.Journal == nil {
		return t.try(c)
	}
	done := t.track(c.id)
	if err := c.journalBegin(); err != nil {
		done()
		return nil, err
	}
	response, err := t.try(c)
	return c.journalEnd(response, err, done)
}

// track notes that an intent is on its way until what it returns is called.
func (t *Transport) track(id string) (done func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running[id]++
	return func() { t.untrack(id) }
}

// trackAlone is track, unless the intent is on its way already.
func (t *Transport) trackAlone(id string) (done func(), alone bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running[id] > 0 {
		return nil, false
	}
	t.running[id]++
	return func() { t.untrack(id) }, true
}

func (t *Transport) untrack(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running[id]--; t.running[id] == 0 {
		delete(t.running, id)
	}
}

// runningTogether reports whether more than one call is on its way for an intent.
func (t *Transport) runningTogether(id string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.running[id] > 1
}

func orDefault[T ~int | ~int64](v, fallback T) T {
	if v == 0 {
		return fallback
	}
	return v
}
