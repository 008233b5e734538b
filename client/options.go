package client

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/internal/keytext"
)

// Options are what all transports have in common; each transport's own options embed them. Options{} works: four
// attempts, random keys, no journal.
type Options struct {
	// KeyFunc makes the key of a new intent. Default: random UUIDs (version 4).
	KeyFunc func() string
	// RequireKey refuses, with ErrKeyRequired, requests for which a random key would have to be made. It is for
	// services: a request that lacks the context of the attempt it belongs to would get another random key when the
	// attempt runs again, and so the operation would run twice.
	RequireKey bool

	// Attempts is how often an intent is sent at most, in one process. Attempts that are told that another attempt is
	// in flight do not count: MaxInFlight bounds those. Default 4.
	Attempts int
	// MaxInFlight is how long an intent waits for another attempt that is in flight, counted from the first reply that
	// says so. It must be longer than the server's lease, after which a server takes over from an attempt that has
	// died. It never extends the Horizon. Default 2 min.
	MaxInFlight time.Duration
	// Backoff is the upper bound of the random wait before the second attempt; it doubles with each attempt up to
	// MaxBackoff. Default 200 ms and 10 s. A wait that the server asks for takes precedence.
	Backoff, MaxBackoff time.Duration
	// MaxRetryAfter is the longest wait that a server may ask for. If it asks for more, there is no further attempt.
	// Default 60 s.
	MaxRetryAfter time.Duration
	// AttemptTimeout bounds one attempt. Default 30 s; negative: no bound.
	AttemptTimeout time.Duration
	// Retention is how long the server remembers a key. Default: what the transport's profile promises, or 24 h.
	Retention time.Duration
	// Horizon is how long after its beginning an intent may still be sent, also after restarts. It must be below half
	// of Retention, because a server that has forgotten a key runs the operation again. Default: a third of Retention.
	Horizon time.Duration
	// Budget bounds retries, separately for each server.
	Budget RetryBudget

	// Name of the client, for clients that share a Journal: Resume sends what a client of the same name has begun.
	// Without names it would send another client's requests with this one's credential. Do not change it while intents
	// are pending. Default: none.
	Name string
	// Journal keeps intents while their outcome is unknown. Default: none; an intent that a crash interrupts is
	// forgotten. After a restart the transport's Resume sends again what was pending.
	Journal Journal
	// JournalHeaders are header fields, trailer fields, or gRPC metadata, that the journal keeps beside those with the
	// key. Over HTTP these header fields are kept anyway: Content-Type, Content-Encoding, Accept, Accept-Language,
	// If-Match, If-None-Match and Prefer. Do not list fields that hold credentials.
	JournalHeaders []string
	// ResumeConcurrency is how many intents one call of Resume sends at once. Default 8.
	ResumeConcurrency int

	// Observer is told of each attempt, and of each intent whose outcome stays unknown. Default: none.
	Observer Observer
}

// WithDefaults returns the options with their defaults filled in, except for Retention, and the Horizon if there is no
// Retention.
func (o Options) WithDefaults() Options {
	if o.KeyFunc == nil {
		o.KeyFunc = keytext.RandomUUID
	}
	o.Attempts = cmp.Or(o.Attempts, 4)
	o.MaxInFlight = cmp.Or(o.MaxInFlight, 2*time.Minute)
	o.Backoff = cmp.Or(o.Backoff, 200*time.Millisecond)
	o.MaxBackoff = max(cmp.Or(o.MaxBackoff, 10*time.Second), o.Backoff)
	o.MaxRetryAfter = cmp.Or(o.MaxRetryAfter, time.Minute)
	o.AttemptTimeout = cmp.Or(o.AttemptTimeout, 30*time.Second)
	o.Horizon = cmp.Or(o.Horizon, o.Retention/3)
	o.Budget.Tokens = cmp.Or(o.Budget.Tokens, 10)
	o.Budget.PerSuccess = cmp.Or(o.Budget.PerSuccess, 0.1)
	o.ResumeConcurrency = cmp.Or(o.ResumeConcurrency, 8)
	return o
}

// Validate returns what is wrong with the options, all faults joined: a Horizon of half the server's retention or
// more, a retention that is not known, a negative number of attempts, a duration that is so short that its unit must be
// missing.
func (o Options) Validate() error {
	o = o.WithDefaults()
	var all []error
	if o.Retention <= 0 {
		all = append(all, errors.New("client: Retention is not set: say how long the server remembers a key"))
	} else if o.Horizon < 0 || o.Horizon >= o.Retention/2 {
		all = append(all, fmt.Errorf("client: Horizon is %v, it must be below half of the server's retention of %v",
			o.Horizon, o.Retention))
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"AttemptTimeout", o.AttemptTimeout},
		{"MaxInFlight", o.MaxInFlight},
		{"Retention", o.Retention},
		{"Horizon", o.Horizon},
		{"MaxRetryAfter", o.MaxRetryAfter},
	} {
		if d.value > 0 && d.value < time.Millisecond {
			all = append(all, fmt.Errorf("client: %s is %v, it must be at least 1ms (is the unit missing, as in 30*time.Second?)",
				d.name, d.value))
		}
	}
	if o.Attempts < 0 || o.MaxInFlight < 0 || o.ResumeConcurrency < 0 {
		all = append(all, errors.New("client: Attempts, MaxInFlight and ResumeConcurrency must not be negative"))
	}
	return errors.Join(all...)
}
