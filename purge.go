package retrysafe

import (
	"context"
	"errors"
	"fmt"
)

// Purge is a person's request to drop the answer of a key. See Guard.Purge.
type Purge struct {
	// Reason says why. Required; up to MaxReasonBytes of UTF-8. It is kept in the trail.
	Reason string
	// By names the person or program that decides; up to MaxByBytes of UTF-8. It is kept in the trail.
	By string
	// DryRun checks everything and changes nothing.
	DryRun bool
}

// Purger is implemented by stores that can drop what was answered of a key before its retention has passed.
type Purger interface {
	// Purge drops Meta, Body and steps of the records that Inspect returns for a key, except steps whose names begin
	// with AuditStepPrefix, ends the Replay window of those records, and adds the step s to the newest. It changes
	// nothing else: the key stays taken until its Key window has passed, and claims are told Done without an answer. If
	// a step of that name is already saved, it is not added again.
	//
	// It returns ErrKeyUnknown if there is no record, and ErrNotEnded if the newest has not ended; then nothing is
	// changed.
	Purge(ctx context.Context, d Digest, s StepResult) error
}

// Purge drops the answer of a key that has ended: Meta, Body and steps of its records, including records that are kept
// only for Inspect. The key stays taken, and a retry gets ErrNotReplayable. The record still says that the work has run
// and how it ended, and its trail has an entry about the purge. Purge returns the record as it is then, and can be
// repeated.
//
// The Guard's store must be an Inspector, and it, or the store that its method Unwrap() Store returns, a Purger. The
// Guard's observers are told KeyPurged.
//
// Errors:
//
//   - ErrInvalidResolution, if a field of p is missing or wrong
//   - ErrKeyUnknown, if the store has no record of the key
//   - ErrNotEnded, with the record that was found
//   - errors.ErrUnsupported, if the store is not an Inspector or not a Purger
//   - ErrShutdown
//   - ErrStoreFailed, with the store's error
func (g *Guard) Purge(ctx context.Context, d Digest, p Purge) (Record, error) {
	if err := validateAudit(p.Reason, p.By); err != nil {
		return Record{}, err
	}
	if !g.enter() {
		return Record{}, ErrShutdown
	}
	defer g.leave()
	known, err := g.newest(ctx, d)
	if err != nil {
		return Record{}, fmt.Errorf("purge key %s: %w", d, err)
	}
	if !known.State.Ended() {
		return known, fmt.Errorf("purge key %s: %w: it is %s", d, ErrNotEnded, known.State)
	}
	purger := purgerOf(g.store)
	if purger == nil {
		return known, fmt.Errorf("purge key %s: the store %T is not a Purger: %w", d, g.store, errors.ErrUnsupported)
	}
	if p.DryRun {
		return known, nil
	}
	return g.purge(ctx, purger, known, p)
}

// purgerOf returns s or the first store inside of it, found by methods Unwrap() Store, that is a Purger; nil if none
// is.
func purgerOf(s Store) Purger {
	if p, ok := s.(Purger); ok {
		return p
	}
	if wrapper, ok := s.(interface{ Unwrap() Store }); ok {
		return purgerOf(wrapper.Unwrap())
	}
	return nil
}

func (g *Guard) purge(ctx context.Context, purger Purger, known Record, p Purge) (Record, error) {
	entry := newAuditEntry(ResolvePurge, p.Reason, p.By, known)
	d := known.Key.Digest()
	err := g.saveWithRetries(ctx, func(ctx context.Context) error { return purger.Purge(ctx, d, entry) })
	switch {
	case errors.Is(err, ErrNotEnded), errors.Is(err, ErrKeyUnknown):
		return known, fmt.Errorf("purge key %s: it has changed meanwhile: %w", d, err)
	case err != nil:
		return known, fmt.Errorf("purge key %s: %w: %w", d, ErrStoreFailed, err)
	}
	g.observe(ctx, Event{Kind: KeyPurged, Key: known.Key, Fence: known.Fence, Attempt: known.Attempt})
	return g.newest(ctx, d)
}
