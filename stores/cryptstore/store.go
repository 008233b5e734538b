package cryptstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tink-crypto/tink-go/v2/tink"

	"github.com/retrysafe/retrysafe"
)

// Options of a Store. Options{} works.
type Options struct {
	// Plaintext says what becomes of content that is not encrypted. Default [PlaintextRefused].
	Plaintext Plaintext
}

// Plaintext says what becomes of content that is not encrypted. It changes from the last to the first while encryption
// is switched on: processes that know the keys at all must be everywhere before one of them encrypts.
type Plaintext uint8

const (
	// PlaintextRefused has a claim of a record whose content is not encrypted fail with retrysafe.ErrUnreadable. It is
	// the setting for good, because an account that can write to the database could otherwise make up answers.
	PlaintextRefused Plaintext = iota
	// PlaintextAccepted reads content that is not encrypted: of before encryption was switched on, or written by a service
	// itself through SQL functions.
	PlaintextAccepted
	// PlaintextWritten does not encrypt either. It is for the first step of a roll-out.
	PlaintextWritten
)

// Store implements retrysafe.Store over another one, which keeps ciphertext. It is safe for concurrent use, starts no
// goroutine, and needs no Close; the caller closes the inner store.
type Store struct {
	inner     retrysafe.Store
	keys      tink.AEAD
	plaintext Plaintext
}

var (
	_ retrysafe.Store  = (*Store)(nil)
	_ retrysafe.Sealer = (*Store)(nil)
)

// New returns a *Store over inner that encrypts with keys, with the methods of Sweeper, Watcher and Inspector that
// [retrysafe.As] finds in inner. An Inspector comes with those of FullScanner, Walker, RiskReporter and Purger; Purge
// returns errors.ErrUnsupported if inner has no Purger. As finds the rest, such as a Finder, in inner.
//
// It panics if inner or keys is nil, or if Options.Plaintext is none of the three, because these are mistakes in the
// program.
func New(inner retrysafe.Store, keys tink.AEAD, o Options) retrysafe.Store {
	switch {
	case inner == nil || keys == nil:
		panic("cryptstore: New without a store or without keys")
	case o.Plaintext > PlaintextWritten:
		panic(fmt.Sprintf("cryptstore: Options.Plaintext is %d; use one of the constants", o.Plaintext))
	}
	return (&Store{inner, keys, o.Plaintext}).as()
}

// Unwrap returns the inner store.
func (s *Store) Unwrap() retrysafe.Store { return s.inner }

// Claim implements [retrysafe.Store]. If the content of the record cannot be decrypted, it returns an error that wraps
// [retrysafe.ErrUnreadable], unless the claim is StateOnly; a key that it has acquired by then is given back with its
// steps.
func (s *Store) Claim(ctx context.Context, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
	c, err := s.inner.Claim(ctx, p)
	if err != nil {
		return c, err
	}
	if c.Verdict == retrysafe.Done {
		c.Record.Steps = nil // which a claim may leave out, so that they need not be readable
	}
	if err = s.open(&c.Record); err == nil {
		return c, nil
	}
	if p.StateOnly {
		c.Record.Steps = slices.DeleteFunc(c.Record.Steps, func(step retrysafe.StepResult) bool { return !isTrail(step) })
		return c, nil
	}
	if c.Verdict == retrysafe.Acquired {
		err = errors.Join(err, s.giveBack(ctx, p, c.Lease))
	}
	return retrysafe.Claim{Doubted: c.Doubted}, fmt.Errorf("claim %s: %w", p.Key, err)
}

// giveBack leaves a key that was acquired as it was, whether or not the caller still waits: abandoned after a
// take-over, and released otherwise, because a record with steps is either. A key that its attempt has released just
// before the take-over is abandoned too: which of the two it was is not known, and nothing runs again that may have
// run. The Guard does not give the key back, since it takes an unreadable record for one that it cannot claim.
func (s *Store) giveBack(ctx context.Context, p retrysafe.ClaimParams, l retrysafe.Lease) error {
	const patience = time.Second
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer stop()
	if p.TakeOver {
		return s.inner.Extend(ctx, l, 0)
	}
	return s.inner.Release(ctx, l)
}

// Extend implements [retrysafe.Store].
func (s *Store) Extend(ctx context.Context, l retrysafe.Lease, d time.Duration) error {
	return s.inner.Extend(ctx, l, d)
}

// Checkpoint implements [retrysafe.Store]. The inner store keeps the step's data encrypted.
func (s *Store) Checkpoint(ctx context.Context, l retrysafe.Lease, step retrysafe.StepResult) error {
	sealed, err := s.SealStep(l.Key, step)
	if err != nil {
		return fmt.Errorf("checkpoint %s: %w", l.Key, err)
	}
	return s.inner.Checkpoint(ctx, l, sealed)
}

// Complete implements [retrysafe.Store]. The inner store keeps Meta and Body encrypted, each of which takes some bytes
// more: it may return [retrysafe.ErrResultTooLarge] for a result that it would take as plaintext.
func (s *Store) Complete(ctx context.Context, l retrysafe.Lease, r retrysafe.Result, keep retrysafe.Retention) error {
	sealed, err := s.SealResult(l.Key, r)
	if err != nil {
		return fmt.Errorf("complete %s: %w", l.Key, err)
	}
	return s.inner.Complete(ctx, l, sealed, keep)
}

// Release implements [retrysafe.Store].
func (s *Store) Release(ctx context.Context, l retrysafe.Lease) error { return s.inner.Release(ctx, l) }
