package queuesafe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Consumer applies a Guard's rules to messages. It knows no broker. It is safe for concurrent use.
type Consumer struct {
	guard       *retrysafe.Guard
	name        string
	scope       string
	options     Options
	fingerprint fingerprinting
}

// Options of a Consumer. Options{} works.
type Options struct {
	// Key finds a message's key. Default: the header Idempotency-Key, else Message.ID, else Message.Position.
	Key KeyFunc
	// Version is put in front of the scope, so that deployments whose messages differ in shape do not collide.
	Version string

	// Fingerprint tells different messages under one key apart. Default FingerprintRaw().
	Fingerprint FingerprintMethod
	// FingerprintHeaders are headers that count beside the body.
	FingerprintHeaders []string
	// Secret makes fingerprints HMACs, so that whoever reads the store cannot guess messages from them.
	Secret []byte

	// MaxAttempts is how many attempts a key gets: after so many that never ended, because the handler takes the process
	// down with it, the message is Poison. It bounds what the policies Rerun and Reconcile do, and what is retried after saved
	// steps. A key that a person has released (retrysafe.ResolveRelease) gets as many again. Default 10; negative: no limit.
	MaxAttempts int
	// MaxDeliveries is how often a message may be delivered before it is given up in the situations Retryable and
	// Unknown. Other situations are nobody's fault and never make a message a dead letter, although brokers
	// count their deliveries too. Default 20; negative: no limit.
	MaxDeliveries int
	// MinDelay and MaxDelay bound the delay before the next delivery, which doubles with each; up to a quarter of it is left
	// out at random. Default 1 s and 1 min.
	MinDelay, MaxDelay time.Duration

	// Observer is told what happens. Default: nobody is.
	Observer Observer
}

func (o Options) withDefaults() Options {
	if o.Key == nil {
		o.Key = FirstKey(KeyByHeader(KeyHeader), KeyByID(), KeyByPosition())
	}
	o.MaxAttempts = cmp.Or(o.MaxAttempts, 10)
	o.MaxDeliveries = cmp.Or(o.MaxDeliveries, 20)
	o.MinDelay = cmp.Or(max(o.MinDelay, 0), time.Second)
	o.MaxDelay = max(cmp.Or(o.MaxDelay, time.Minute), o.MinDelay)
	return o
}

// New returns a Consumer whose keys are in the scope of its name: two consumers of one topic with different names each
// process every message, many processes with one name share the work. Do not change a name while messages are on their way:
// under another name they are all new.
//
// It returns an error if the name is empty, or if the fields of a FingerprintJSON are not valid.
func New(guard *retrysafe.Guard, name string, o Options) (*Consumer, error) {
	if name == "" {
		return nil, errors.New("queuesafe: a consumer needs a name")
	}
	if err := o.Fingerprint.fields.Validate(); err != nil {
		return nil, fmt.Errorf("queuesafe: fingerprint: %w", err)
	}
	c := &Consumer{guard: guard, name: name, options: o.withDefaults(), fingerprint: newFingerprinting(o)}
	c.scope = retrysafe.Scope("queue", name)
	if o.Version != "" {
		c.scope = retrysafe.Scope(o.Version, "queue", name)
	}
	return c, nil
}

// Name returns the name that New was given.
func (c *Consumer) Name() string { return c.name }

// MaxDeliveries returns Options.MaxDeliveries, its default filled in: brokers' own limits must be larger.
func (c *Consumer) MaxDeliveries() int { return c.options.MaxDeliveries }

// Key returns the key of a message. It returns an error that is ErrNoKey, retrysafe.ErrInvalidKey, or what the KeyFunc
// returned, or a *PanicError if it panicked: a message that nobody can read must not take the process down on every delivery.
func (c *Consumer) Key(m Message) (retrysafe.Key, error) {
	id, err := c.keyOf(m)
	if err != nil {
		return retrysafe.Key{}, err
	}
	k := retrysafe.Key{Scope: c.scope, ID: id}
	return k, k.Validate()
}

func (c *Consumer) keyOf(m Message) (id string, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack(), who: "KeyFunc"}
		}
	}()
	return c.options.Key(m)
}

// Handle runs the handler at most once for the message's key, and returns what to do with the message. It may be called with
// the same message any number of times, by any number of processes. While it runs, it calls m.Extend as m asks for.
//
// A handler that panics may have had its effect: the panic is recovered, the key is abandoned, as after a crash, and
// Disposition.Err is around a *PanicError. The guard's policy for abandoned keys decides what the next delivery does.
func (c *Consumer) Handle(ctx context.Context, m Message, h Handler) Disposition {
	began := time.Now()
	key, err := c.Key(m)
	d := Disposition{Situation: NoKey, Err: err}
	if err == nil {
		d = c.run(ctx, m, key, h)
	}
	d = c.dispose(d, m.Delivery)
	c.Tell(ctx, Event{
		Kind: Handled, Source: m.Source, Delivery: m.Delivery, Key: key, Disposition: d, Took: time.Since(began), Err: d.Err,
	})
	return d
}

func (c *Consumer) run(ctx context.Context, m Message, key retrysafe.Key, h Handler) Disposition {
	stop := c.holdOn(ctx, m, key)
	defer stop() // also when the handler ends its goroutine
	request := retrysafe.Request{Key: key, Fingerprint: c.fingerprint.of(m)}
	out, err := c.guard.Do(ctx, request, c.work(m, h))
	return judge(ctx, out, err)
}

// PanicError is a panic of a Handler or a KeyFunc. Its text says no more than that, since dead letters
// carry it; Value and Stack are for logs.
type PanicError struct {
	Value any
	Stack []byte
	who   string
}

func (e *PanicError) Error() string { return "the " + cmp.Or(e.who, "handler") + " panicked" }
