package rpcsafe

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/keytext"
	"github.com/retrysafe/retrysafe/internal/retry"
)

// ErrUnnamedCall: a second call of the same method in one attempt, or a second one in one step.
var ErrUnnamedCall = errors.New("an attempt calls the same method twice, or a step calls twice: name the calls with WithOperation")

// ErrKeyRequired: with RequireKey, a call that has no key, is not named with WithIntent or WithKey, and does not have the context of an
// attempt.
var ErrKeyRequired = errors.New("the call has no key, and RequireKey makes up none: make it with the context of the attempt, " +
	"or name it with WithIntent or WithKey")

// outgoing is one intent on its way.
type outgoing struct {
	c       *Client
	method  string
	request proto.Message // a copy: what the caller does with his does not change what is sent
	key     string
	header  string // the key as metadata; empty: it is in the request
	ends    time.Time

	attempts int
	waited   int       // attempts that were told that another one is at work
	since    time.Time // the first reply that said so; zero: none has
	unclear  bool      // something that was sent may have run
	unknown  bool      // nobody can say how it ended
}

// begin chooses the key.
func (c *Client) begin(ctx context.Context, call Call) (*outgoing, error) {
	o := &outgoing{c: c, method: call.Method, ends: time.Now().Add(c.o.Horizon)}
	digest := retrysafe.NaturalID(call.Method)
	if call.Request != nil {
		o.request = proto.Clone(call.Request)
		digest = retrysafe.NaturalID(call.Method, deterministic(o.request))
	}
	inField, hasField := "", false
	if c.o.KeyField != "" && o.request != nil {
		inField, hasField = field(c.o.KeyField).text(o.request)
	}
	key, reason := "", ""
	switch {
	case inField != "":
		key, reason = c.id.ParseBare(inField)
	case len(call.Key) > 0:
		key, reason = c.header.Parse(call.Key)
		o.header = strings.Join(call.Key, "")
	default:
		return o, o.newKey(ctx, call.Method, digest, hasField)
	}
	if reason != "" {
		return nil, errors.New("the key of the call is malformed: " + reason)
	}
	o.key = key
	return o, nil
}

// newKey gives a key to a call that has none: that of WithKey, a child key inside an attempt, or a new one.
func (o *outgoing) newKey(ctx context.Context, method, digest string, inField bool) error {
	said := namedIn(ctx)
	attempt, inside := retrysafe.AttemptFrom(ctx)
	switch {
	case said.key != "" && !said.admits(digest):
		return errors.Join(errors.New("the key of the context is for one request"), retrysafe.ErrMismatch)
	case said.key != "":
		o.key = said.key
		if inField && said.derived {
			o.key = keytext.UUIDOf(strings.ReplaceAll(said.key, "-", ""), '4') // AIP-155 insists
		}
	case inside:
		child, err := childKey(ctx, attempt, said.operation, method, digest)
		if err != nil {
			return err
		}
		o.key = child
		if inField {
			o.key = keytext.UUIDOf(child, '4')
		}
	case o.c.o.RequireKey:
		return ErrKeyRequired
	default:
		o.key = o.c.o.KeyFunc()
	}
	if inField && o.c.id.Check(o.key) == "" && field(o.c.o.KeyField).set(o.request, o.key) {
		return nil
	}
	if inField {
		return errors.New("the key does not have the form of " + o.c.o.KeyField + ", or the message that holds it is not set")
	}
	o.header = written(o.key)
	if _, reason := o.c.header.Parse([]string{o.header}); reason != "" {
		return errors.New("the key is malformed: " + reason)
	}
	return nil
}

// childKey derives the key of a call made inside an attempt, unless another call of the attempt has it. A call without a name
// is named after its step, or else after its method.
func childKey(ctx context.Context, a *retrysafe.Attempt, operation, method, digest string) (string, error) {
	name := operation
	if name == "" {
		name = "CALL " + method
		if step, ok := retrysafe.StepFrom(ctx); ok {
			name = step
		}
	}
	first, again := a.Control().NoteCall(name, digest)
	switch {
	case again && operation == "":
		return "", ErrUnnamedCall
	case again && first != digest:
		return "", errors.Join(errors.New("the operation of the attempt was another request"), retrysafe.ErrMismatch)
	}
	return a.ChildKey(name), nil
}

// written returns a key as metadata has it: bare, or else as a structured-field string.
func written(key string) string {
	if (keytext.Syntax{Max: retrysafe.MaxKeyBytes}).Check(key) == "" {
		return key
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
}

func (o *outgoing) digest() string { return retrysafe.Key{ID: o.key}.String() }

// report says how an attempt went that ended like this.
func (o *outgoing) report(s signal, took time.Duration) AttemptReport {
	return AttemptReport{Key: o.digest(), Method: o.method, Attempt: o.attempts, Code: "OK", Signal: s.name, Took: took}
}

// after returns when to send again, if at all.
func (o *outgoing) after(ctx context.Context, s verdict) (wait time.Duration, again bool) {
	o.unclear = o.unclear || s.effect == mayHaveRun
	o.unknown = o.unclear && s.effect != answered
	if !s.again {
		return 0, false
	}
	wait = s.after
	if !s.said {
		wait = retry.Backoff(o.attempts, o.c.o.Backoff, o.c.o.MaxBackoff)
	}
	deadline, limited := ctx.Deadline()
	due := time.Now().Add(wait)
	again = o.allows(s, due) && wait <= o.c.o.MaxRetryAfter && due.Before(o.ends) && ctx.Err() == nil && (!limited || due.Before(deadline))
	if !again {
		wait = 0
	}
	return wait, again
}

// allows reports whether there may be another attempt then. A server that says that one is in flight is well and asks for
// patience: what counts is time. Anything else counts as an attempt, and strains the budget.
func (o *outgoing) allows(s verdict, due time.Time) bool {
	if s.name != signalInFlight {
		return o.c.budget.Failed() && o.attempts-o.waited < o.c.o.Attempts
	}
	o.waited++
	if o.since.IsZero() {
		o.since = time.Now()
	}
	return due.Sub(o.since) <= o.c.o.MaxInFlight
}

// givenUp is what the caller gets who did not wait.
func (o *outgoing) givenUp(err error) error {
	if o.unclear {
		return &OutcomeUnknownError{Key: o.digest(), Attempts: o.attempts, Err: err}
	}
	return err
}

// named is what a caller has said about the key of a call.
type named struct {
	key, operation string
	derived        bool               // the key is that of an Intent
	within         *retrysafe.Attempt // that it was said in; nil: none

	mu    sync.Mutex
	first string // digest of the first request under key
}

type namedKey struct{}

// WithKey returns a context whose call has this key.
func WithKey(ctx context.Context, key string) context.Context {
	return withNamed(ctx, &named{key: key})
}

// WithIntent returns a context whose call has the intent's key.
func WithIntent(ctx context.Context, i retrysafe.Intent) context.Context {
	return withNamed(ctx, &named{key: i.Key(), derived: true})
}

// WithOperation returns a context whose calls, inside an attempt, have the child key of this name.
func WithOperation(ctx context.Context, name string) context.Context {
	return withNamed(ctx, &named{operation: name})
}

func withNamed(ctx context.Context, n *named) context.Context {
	n.within, _ = retrysafe.AttemptFrom(ctx)
	return context.WithValue(ctx, namedKey{}, n)
}

func namedIn(ctx context.Context) *named {
	n, _ := ctx.Value(namedKey{}).(*named)
	if attempt, _ := retrysafe.AttemptFrom(ctx); n == nil || n.within != attempt {
		return &named{}
	}
	return n
}

// admits reports whether a request of that digest may have the key: all must be the same.
func (n *named) admits(digest string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.first = orElse(n.first, digest)
	return n.first == digest
}
