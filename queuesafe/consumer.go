package queuesafe

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/tagplace"
)

// Consumer applies a Guard's rules to messages. It is safe for concurrent use.
type Consumer struct {
	guard       *retrysafe.Guard
	name        string
	scope       string
	options     Options
	fingerprint fingerprinting
}

// Options of a Consumer. Options{} works.
type Options struct {
	// Key returns a message's key. Default: the header Idempotency-Key, else Message.ID, else Message.Position.
	Key KeyFunc
	// Tags return, for each tag's name, its value, so that people find the key by the number of an order: see
	// retrysafe.Tags. A value that is missing, longer than retrysafe.MaxTagValueBytes or not a text that a tag may have is
	// left out; no message is refused for it. The tags of the first message with a key are kept, if the
	// store keeps tags. At most retrysafe.MaxTags. Default: none.
	Tags map[string]TagFunc
	// Version is put in front of the scope, so that deployments whose messages differ in shape do not share keys.
	// Default: none.
	Version string

	// Fingerprint decides which messages with the same key count as different. Default FingerprintRaw().
	Fingerprint FingerprintMethod
	// FingerprintHeaders are headers that are part of the fingerprint, beside the body. Default: none.
	FingerprintHeaders []string
	// Secret makes fingerprints HMACs, so that a reader of the store cannot guess messages from them. Default: plain
	// hashes.
	Secret []byte

	// MaxAttempts is how many attempts a key gets. A message after so many attempts without a known outcome, for example
	// because the handler crashes the process or returns an error without a mark under Rerun, is Poison. It limits the
	// policies Rerun and Reconcile. Attempts that were Retryable after saved steps count too, but the message is Poison
	// only when the outcome of the last one is unknown. A key that a person has released (retrysafe.ResolveRelease) gets
	// as many attempts again. Default 10; negative: no limit.
	MaxAttempts int
	// MaxDeliveries is how often a message may be delivered before it is given up in the situations Retryable and
	// Unknown. In other situations neither message nor handler is at fault: they never make a dead letter, although
	// brokers count those deliveries too. Default 1000, which takes about 15 hours with the default delays, so that a
	// downstream service that is away for a night makes no dead letters; negative: no limit.
	MaxDeliveries int
	// MinDelay and MaxDelay bound the delay before the next delivery. It doubles with each delivery, and a random part
	// of up to a quarter is subtracted. Default 1 s and 1 min.
	MinDelay, MaxDelay time.Duration

	// Observer receives the events. Default: none.
	Observer Observer
}

func (o Options) withDefaults() Options {
	if o.Key == nil {
		o.Key = FirstKey(KeyByHeader(KeyHeader), KeyByID(), KeyByPosition())
	}
	o.MaxAttempts = cmp.Or(o.MaxAttempts, 10)
	o.MaxDeliveries = cmp.Or(o.MaxDeliveries, 1000)
	o.MinDelay = cmp.Or(max(o.MinDelay, 0), time.Second)
	o.MaxDelay = max(cmp.Or(o.MaxDelay, time.Minute), o.MinDelay)
	return o
}

// Validate returns an error if the fields of a [FingerprintFields] or the names of Tags are invalid.
func (o Options) Validate() error {
	if err := o.Fingerprint.fields.Validate(); err != nil {
		return fmt.Errorf("queuesafe: Options.Fingerprint: %w", err)
	}
	if err := tagplace.Validate(o.Tags, TagFunc.validate); err != nil {
		return fmt.Errorf("queuesafe: Options.Tags: %w", err)
	}
	return nil
}

// New returns a Consumer whose keys are in the scope of its name: two consumers of one topic with different names each
// process every message, and many processes with the same name share the work. Do not change the name while messages
// may be delivered again: with another name they all count as new.
//
// It panics if the name is empty or if o.Validate returns an error.
func New(guard *retrysafe.Guard, name string, o Options) *Consumer {
	if name == "" {
		panic("queuesafe: a consumer needs a name")
	}
	if err := o.Validate(); err != nil {
		panic(err.Error())
	}
	c := &Consumer{guard: guard, name: name, options: o.withDefaults(), fingerprint: newFingerprinting(o)}
	c.scope = retrysafe.Scope("queue", name)
	if o.Version != "" {
		c.scope = retrysafe.Scope(o.Version, "queue", name)
	}
	return c
}

// Name returns the name that New was given.
func (c *Consumer) Name() string { return c.name }

// MaxDeliveries returns [Options.MaxDeliveries] with its default filled in. A broker's own limit must be larger.
func (c *Consumer) MaxDeliveries() int { return c.options.MaxDeliveries }

// Key returns the key of a message. Errors are [retrysafe.ErrInvalidKey], the error of the [KeyFunc] ([ErrNoKey] if
// there is no key), or a *PanicError if the KeyFunc panicked: an unreadable message must not crash the process on every
// delivery.
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
			err = &PanicError{Value: v, Stack: debug.Stack(), source: "KeyFunc"}
		}
	}()
	return c.options.Key(m)
}

// Handle runs the handler at most once for the message's key, and returns what to do with the message. It may be called
// with the same message any number of times, by any number of processes. While it runs, it calls m.Extend every
// m.ExtendEvery.
//
// Handle recovers a panic of the handler, which may have had its effect: the key is abandoned, as after a crash, and
// [Disposition.Err] wraps a *PanicError. The Guard's policy for abandoned keys decides what the next delivery does.
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
	stop := c.extend(ctx, m, key)
	defer stop() // also when the handler ends its goroutine
	request := retrysafe.Request{Key: key, Fingerprint: c.fingerprint.of(m), Tags: c.tags(m)}
	out, err := c.guard.Do(ctx, request, c.work(m, h))
	return c.judge(out, err)
}

// PanicError is the error for a panic of a Handler or a [KeyFunc]. Dead letters carry its text, so the text does not
// hold the panic's value; Value and Stack are for logs.
type PanicError struct {
	Value  any
	Stack  []byte
	source string
}

func (e *PanicError) Error() string { return "the " + cmp.Or(e.source, "handler") + " panicked" }
