package connectsafe

import (
	"context"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/rpcsafe"
)

// ClientOptions of NewClientInterceptor. ClientOptions{} works: a random key for each call, four attempts.
type ClientOptions struct {
	// KeyHeader is the header that carries the key. Default "Idempotency-Key".
	KeyHeader string
	// KeyField is a string field of the request that carries the key instead, in requests that have it: see Options.KeyField.
	KeyField string
	// Methods that get a key: those that the server guards. Default: all but those with idempotency_level = NO_SIDE_EFFECTS. Others are
	// sent once.
	Methods []string
	// KeyFunc makes the key of a new intent. Default: random UUIDs (version 4).
	KeyFunc func() string
	// RequireKey refuses with ErrKeyRequired to make up a random key. It is for services: a call that lacks the context of the attempt it
	// belongs to would get another random key when the attempt runs again, and so run twice.
	RequireKey bool

	// Attempts at one intent, the first included. Those that are told that another attempt is in flight do not count: MaxInFlight bounds
	// them. Default 4.
	Attempts int
	// MaxInFlight is how long an intent waits for another attempt that is in flight, from the first reply that says so. It must outlast the
	// server's lease, after which a server takes over from an attempt that has died. Default 2 min.
	MaxInFlight time.Duration
	// Backoff is the upper bound of the random wait before the second attempt; it doubles with each attempt up to MaxBackoff. Default
	// 200 ms and 10 s. A server's pushback or RetryInfo is obeyed instead.
	Backoff, MaxBackoff time.Duration
	// MaxRetryAfter is the longest wait that a server may ask for. One that asks for more is not asked again. Default 60 s.
	MaxRetryAfter time.Duration
	// AttemptTimeout bounds one attempt. Default 30 s; negative: none.
	AttemptTimeout time.Duration
	// Retention is how long the server remembers a key. Default 24 h.
	Retention time.Duration
	// Horizon is how long after its beginning an intent may still be sent. It must be below half of Retention, because a server that has
	// forgotten a key runs the operation again. Default: a third of Retention.
	Horizon time.Duration
	// Budget of retries of all calls of the interceptor.
	Budget RetryBudget

	// Marker of replays, and Domain of refusals, as the server has them: see Options.
	Marker, Domain string
	// ObserveFunc is told of each attempt. It is called by many goroutines at once and must not block. Default: nobody is.
	ObserveFunc func(ctx context.Context, r AttemptReport)
}

// AttemptReport tells how one attempt at a call went. It holds neither key nor request.
type AttemptReport = rpcsafe.AttemptReport

// RetryBudget keeps retries from piling up on a server that is failing, as gRPC's retry throttling does (gRFC A6): each failed attempt
// takes a token, each answer gives back a part of one, and while half of the tokens or fewer are left there are no retries.
type RetryBudget struct {
	// Tokens at the beginning and at most. Default 10; negative: retries are not bounded.
	Tokens float64
	// PerSuccess is what an answer gives back. Default 0.1.
	PerSuccess float64
}

// Validate reports what is wrong with the options.
func (o ClientOptions) Validate() error { return o.shared().Validate() }

func (o ClientOptions) shared() rpcsafe.ClientOptions {
	return rpcsafe.ClientOptions{
		Adapter: "connectsafe", KeyHeader: o.KeyHeader, KeyField: o.KeyField, Methods: o.Methods, KeyFunc: o.KeyFunc, RequireKey: o.RequireKey,
		Attempts: o.Attempts, MaxInFlight: o.MaxInFlight, Backoff: o.Backoff, MaxBackoff: o.MaxBackoff, MaxRetryAfter: o.MaxRetryAfter,
		AttemptTimeout: o.AttemptTimeout, Retention: o.Retention, Horizon: o.Horizon,
		BudgetTokens: o.Budget.Tokens, BudgetReturn: o.Budget.PerSuccess, Marker: o.Marker, Domain: o.Domain,
		ObserveFunc: o.ObserveFunc,
	}
}

// ErrOutcomeUnknown is what an *OutcomeUnknownError is.
var ErrOutcomeUnknown = rpcsafe.ErrOutcomeUnknown

// ErrUnnamedCall: a second call of the same method in one attempt of a Guard, or a second one in one retrysafe.Step. Nothing was sent: name
// both calls with WithOperation.
var ErrUnnamedCall = rpcsafe.ErrUnnamedCall

// ErrKeyRequired is returned with ClientOptions.RequireKey for a call that has no key, is not named with WithIntent or WithKey, and does not
// have the context of an attempt. Nothing was sent.
var ErrKeyRequired = rpcsafe.ErrKeyRequired

// ErrNotReplayable is returned for a call that has succeeded, and whose response the server did not keep, so that this client cannot have it.
// The error wraps the server's, which has the reason IDEMPOTENT_RESPONSE_NOT_KEPT. Nothing is left to retry: a new key would run the
// operation a second time. Read what it made with another call.
var ErrNotReplayable = rpcsafe.ErrNotReplayable

// OutcomeUnknownError is the error for a call of which nobody can say whether it was carried out. It wraps ErrOutcomeUnknown and the
// error of the last attempt, so that connect.CodeOf finds its code. Do not make the call again with a new key: find out what happened.
type OutcomeUnknownError = rpcsafe.OutcomeUnknownError

// NewClientInterceptor returns what makes unary calls of a client safe to retry, and retries them. A call gets a key, one for each intent,
// which all attempts share. Do not change the request while the call runs: it is sent again as it then is.
//
// The key is, in this order: what the call brings; that of WithKey or WithIntent; inside an attempt of a Guard the child key, see WithOperation; a new
// one. What an answer means is in the table of docs/grpc.md. If nobody can say whether the operation ran, the error is an
// *OutcomeUnknownError: there is never a second key for the same intent.
//
// It panics if o.Validate reports an error.
func NewClientInterceptor(o ClientOptions) connect.Interceptor {
	return &client{rpcsafe.NewClient(o.shared())}
}

type client struct{ *rpcsafe.Client }

// WrapUnary implements connect.Interceptor.
func (c *client) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
		spec := request.Spec()
		if !spec.IsClient || !c.Gives(spec.Procedure, isSafe(spec)) {
			return next(ctx, request)
		}
		name := http.CanonicalHeaderKey(c.KeyHeader())
		message, _ := request.Any().(proto.Message)
		call := rpcsafe.Call{Method: spec.Procedure, Key: request.Header()[name], Request: message}
		var response connect.AnyResponse
		err := c.Call(ctx, call, func(ctx context.Context, copied proto.Message, key string) (reply rpcsafe.Reply, err error) {
			attempt := &frozen{request, request.Any(), request.Header().Clone()}
			if copied != nil {
				attempt.message = copied
			}
			if key != "" {
				attempt.header[name] = []string{key}
			}
			response, err = next(ctx, attempt)
			if err != nil {
				reply = rpcsafe.Reply{Status: statusOf(err), Trailer: metaOf(err), Begun: !connect.IsWireError(err)}
			}
			return reply, err
		})
		if err != nil {
			return nil, err
		}
		return response, nil
	}
}

// frozen is one attempt's request: the copy of the message, and a header of its own.
type frozen struct {
	connect.AnyRequest
	message any
	header  http.Header
}

// Any implements connect.AnyRequest.
func (f *frozen) Any() any { return f.message }

// Header implements connect.AnyRequest.
func (f *frozen) Header() http.Header { return f.header }

// WrapStreamingClient implements connect.Interceptor. Streams pass.
func (c *client) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements connect.Interceptor. Streams pass.
func (c *client) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

// WithKey returns a context whose call has this key: one that the caller has kept since before the first attempt. It is the key of one
// request: a second call with the context may repeat the first; another is refused with an error that is retrysafe.ErrMismatch.
//
// Inside an attempt of a Guard that began later, the key does not count: the attempt's own calls have child keys.
func WithKey(ctx context.Context, key string) context.Context { return rpcsafe.WithKey(ctx, key) }

// Intent names something that is to happen once, by what the caller knows it by. Its key is the same over HTTP and gRPC.
type Intent = retrysafe.Intent

// IntentKey returns the key of an Intent.
func IntentKey(operation string, params ...string) string {
	return Intent{Operation: operation, Params: params}.Key()
}

// WithIntent returns a context whose call has the intent's key. It is the key of one request, as with WithKey. In a KeyField that wants
// UUIDs of version 4 it is written as one.
func WithIntent(ctx context.Context, i Intent) context.Context { return rpcsafe.WithIntent(ctx, i) }

// WithOperation returns a context whose calls, inside an attempt of a Guard, have the child key of this name. Without it the name is that
// of the retrysafe.Step that the call is made in, or else the method, and there may be one such call: a second is refused with ErrUnnamedCall,
// because the two could not be told apart when the attempt is run again, perhaps in another order. Names must be the same on every attempt.
func WithOperation(ctx context.Context, name string) context.Context {
	return rpcsafe.WithOperation(ctx, name)
}
