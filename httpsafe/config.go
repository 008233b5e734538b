package httpsafe

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpkey"
)

// config is what requests are served by: Options with their defaults, the Guard, and what follows from both.
type config struct {
	Options
	guard       *retrysafe.Guard
	policy      retrysafe.Policy // the Guard's
	scope       ScopeFunc
	headers     []string // canonical names of the headers that carry a key, the main one first
	fingerprint *fingerprinter
	fields      *fieldRules

	version string // Options.ScopeVersion as part of a scope
	waits   bool   // the Guard may wait for a key in flight
	resumes bool   // the Guard resumes abandoned keys: a retry gets further
}

// checkedConfig panics for a mistake in the arguments of the function who.
func checkedConfig(who string, g *retrysafe.Guard, scope ScopeFunc, o Options) *config {
	if scope == nil {
		panic("httpsafe: " + who + " needs a ScopeFunc; ScopeNone() says that all callers share one scope")
	}
	if err := o.Validate(); err != nil {
		panic(err.Error())
	}
	return newConfig(g, scope, o)
}

func newConfig(g *retrysafe.Guard, scope ScopeFunc, o Options) *config {
	o = o.WithDefaults()
	if o.Inbox != nil { // whose requests can wait for the store, and are delivered again if that fails
		g = g.With(retrysafe.Policy{OnStoreError: retrysafe.FailClosed})
	}
	c := &config{
		Options:     o,
		guard:       g,
		policy:      g.Policy(),
		scope:       scope,
		headers:     o.Profile.Headers(),
		fingerprint: newFingerprinter(o),
		fields:      newFieldRules(o.Profile),
		waits:       g.Policy().OnInFlight != retrysafe.Reject(),
		resumes:     g.Policy().OnAbandoned.Resumes(),
	}
	c.Ambiguous = o.ambiguous(c.policy)
	if o.ScopeVersion != "" {
		c.version = retrysafe.Scope(o.ScopeVersion)
	}
	return c
}

// setStatus sets Idempotency-Status, if the profile has it.
func (c *config) setStatus(h http.Header, status string) {
	if c.Profile.StatusHeader {
		h["Idempotency-Status"] = []string{status}
	}
}

// keyMissing names the header in which the key is expected.
func (c *config) keyMissing() Problem {
	p := problem(retrysafe.SituationKeyMissing)
	if len(c.headers) > 0 {
		p = p.with("header", c.headers[0])
	}
	return p
}

// keyMalformed adds why the key is malformed, without showing it.
func (c *config) keyMalformed(err error) Problem {
	p := problem(retrysafe.SituationKeyMalformed)
	if e := new(httpkey.Error); errors.As(err, &e) {
		p = p.with("reason", e.Reason)
	}
	return p.with("max_length", c.Profile.KeySyntax.Max)
}

// appendExpiry appends the second from which on the result is no longer replayed.
func appendExpiry(b []byte, left time.Duration) []byte {
	return strconv.AppendInt(append(b, "; exp=@"...), time.Now().Add(left).Unix(), 10)
}
