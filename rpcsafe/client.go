package rpcsafe

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/keytext"
	"github.com/retrysafe/retrysafe/internal/retry"
)

// ClientOptions of a Client. The adapters' ClientOptions have the same fields, and document them.
type ClientOptions struct {
	Adapter string // its package, for errors

	KeyHeader, KeyField string
	Methods             Methods
	KeyFunc             func() string
	RequireKey          bool

	Attempts                   int
	MaxInFlight                time.Duration
	Backoff, MaxBackoff        time.Duration
	MaxRetryAfter              time.Duration
	AttemptTimeout             time.Duration
	Retention, Horizon         time.Duration
	BudgetTokens, BudgetReturn float64

	Marker, Domain string
	ObserveFunc    func(ctx context.Context, r AttemptReport)
}

// AttemptReport tells how one attempt at a call went. It holds neither key nor request.
type AttemptReport struct {
	// Key is the digest of the key, see OutcomeUnknownError.
	Key string
	// Method is the full name: "/shop.v1.Payments/Create".
	Method string
	// Attempt counts from 1 in this process.
	Attempt int
	// Code of the answer, such as "UNAVAILABLE"; "OK" if it is no error. Err is the error.
	Code string
	Err  error
	// Signal is the row of the table in docs/grpc.md that decided, such as "in-flight".
	Signal string
	// Retried says that another attempt follows, after Wait.
	Retried bool
	Wait    time.Duration
	// Took is how long the attempt took.
	Took time.Duration
}

func (o ClientOptions) withDefaults() ClientOptions {
	o.KeyHeader = strings.ToLower(orElse(o.KeyHeader, DefaultKeyHeader))
	o.Marker = strings.ToLower(orElse(o.Marker, DefaultMarker))
	o.Domain = orElse(o.Domain, DefaultDomain)
	if o.Methods == nil {
		o.Methods = Methods{"*"}
	}
	if o.KeyFunc == nil {
		o.KeyFunc = keytext.RandomUUID
	}
	o.Attempts = orElse(o.Attempts, 4)
	o.MaxInFlight = orElse(o.MaxInFlight, 2*time.Minute)
	o.Backoff = orElse(o.Backoff, 200*time.Millisecond)
	o.MaxBackoff = max(orElse(o.MaxBackoff, 10*time.Second), o.Backoff)
	o.MaxRetryAfter = orElse(o.MaxRetryAfter, time.Minute)
	o.AttemptTimeout = orElse(o.AttemptTimeout, 30*time.Second)
	o.Retention = orElse(o.Retention, retrysafe.DefaultRetention)
	o.Horizon = orElse(o.Horizon, o.Retention/3)
	o.BudgetTokens = orElse(o.BudgetTokens, 10)
	o.BudgetReturn = orElse(o.BudgetReturn, 0.1)
	return o
}

// Validate reports what is wrong with the options.
func (o ClientOptions) Validate() error {
	o = o.withDefaults()
	var errs []error
	if o.Retention < 0 || o.Horizon < 0 || o.Horizon >= o.Retention/2 {
		errs = append(errs, fmt.Errorf("a Horizon of %v is not below half of the server's retention of %v", o.Horizon, o.Retention))
	}
	if o.Attempts < 0 || o.MaxInFlight < 0 {
		errs = append(errs, fmt.Errorf("neither Attempts (%d) nor MaxInFlight (%v) may be negative", o.Attempts, o.MaxInFlight))
	}
	server := Options{KeyHeader: o.KeyHeader, KeyField: o.KeyField, Methods: o.Methods, Marker: o.Marker}
	if err := errors.Join(append(errs, server.Validate())...); err != nil {
		return fmt.Errorf("%s: %w", o.Adapter, err)
	}
	return nil
}

// Client makes calls safe to retry, and retries them.
type Client struct {
	o          ClientOptions
	header, id keytext.Syntax
	budget     *retry.Budget
}

// NewClient returns a Client. It panics if the options are wrong, as it happens when a program starts.
func NewClient(o ClientOptions) *Client {
	if err := o.Validate(); err != nil {
		panic(err.Error())
	}
	o = o.withDefaults()
	as := Options{KeyField: o.KeyField}
	return &Client{o: o, header: as.headerSyntax(), id: as.fieldSyntax(), budget: retry.NewBudget(o.BudgetTokens, o.BudgetReturn)}
}

// KeyHeader is the metadata that carries keys, in lower case.
func (c *Client) KeyHeader() string { return c.o.KeyHeader }

// Gives reports whether calls of a method get a key.
func (c *Client) Gives(method string, safe bool) bool {
	return !safe && !isPlumbing(method) && c.o.Methods.have(method)
}

// Send makes one attempt: it sends the request, with the metadata if key is not empty. The error is what the caller gets to see of a
// reply that has failed.
type Send func(ctx context.Context, request proto.Message, key string) (Reply, error)

// Call makes attempts until the outcome is known, or none is left.
func (c *Client) Call(ctx context.Context, call Call, send Send) error {
	o, err := c.begin(ctx, call)
	if err != nil {
		return fmt.Errorf("%s: %w", c.o.Adapter, err)
	}
	for {
		began := time.Now()
		reply, err := c.attempt(ctx, o, send)
		took := time.Since(began)
		if err == nil {
			c.budget.Succeeded()
			c.observe(ctx, o.report(signal{name: signalSuccess}, took))
			return nil
		}
		s := c.judge(reply)
		wait, again := o.after(ctx, s)
		report := o.report(s.signal, took)
		report.Code, report.Err, report.Retried, report.Wait = reply.code().String(), err, again, wait
		c.observe(ctx, report)
		switch {
		case s.name == signalNotKept:
			return fmt.Errorf("%w: %w", ErrNotReplayable, err)
		case !again && o.unknown:
			return &OutcomeUnknownError{Key: o.digest(), Attempts: o.attempts, Err: err}
		case !again:
			return err
		case retry.Wait(ctx, wait) != nil:
			return o.givenUp(err)
		}
	}
}

func (c *Client) observe(ctx context.Context, r AttemptReport) {
	if c.o.ObserveFunc != nil {
		c.o.ObserveFunc(ctx, r)
	}
}

func (c *Client) attempt(ctx context.Context, o *outgoing, send Send) (Reply, error) {
	if c.o.AttemptTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.o.AttemptTimeout)
		defer cancel()
	}
	o.attempts++
	return send(ctx, o.request, o.header)
}

// ErrOutcomeUnknown: nobody can say whether the operation was carried out.
var ErrOutcomeUnknown = errors.New("retrysafe: outcome of the call unknown")

// ErrNotReplayable: the operation has succeeded, but the server did not keep its response.
var ErrNotReplayable = errors.New("retrysafe: the call has succeeded, but the server did not keep its response")

// OutcomeUnknownError is the error for a call of which nobody can say whether it was carried out.
type OutcomeUnknownError struct {
	// Key is the digest of the key, which is safe to log.
	Key string
	// Attempts that were made.
	Attempts int
	// Err is how the last one ended.
	Err error
}

func (e *OutcomeUnknownError) Error() string {
	return fmt.Sprintf("outcome unknown after %d attempts: %v", e.Attempts, e.Err)
}

// Unwrap returns ErrOutcomeUnknown, and how the last attempt ended.
func (e *OutcomeUnknownError) Unwrap() []error { return []error{ErrOutcomeUnknown, e.Err} }
