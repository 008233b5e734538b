package main

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"fmt"

	"github.com/retrysafe/retrysafe"
)

// inner is the interface of the wrapped store. It lists the optional interfaces, too: a wrapper that embeds only
// retrysafe.Store would hide them, and nothing could be swept, watched or inspected.
type inner interface {
	retrysafe.Store
	retrysafe.Sweeper
	retrysafe.Watcher
	retrysafe.Inspector
}

// sealed is a Store that encrypts answers before another Store keeps them, so that a reader of the file cannot see
// them. Scope, key ID and fingerprint stay readable, because claims compare them.
type sealed struct {
	inner
	aead cipher.AEAD
}

var _ inner = (*sealed)(nil)

// newSealed returns a store that encrypts with AES-GCM. The secret is 16, 24 or 32 random bytes.
func newSealed(s inner, secret []byte) (*sealed, error) {
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	return &sealed{s, aead}, nil
}

// Claim implements retrysafe.Store.
func (s *sealed) Claim(ctx context.Context, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
	c, err := s.inner.Claim(ctx, p)
	if err != nil {
		return c, err
	}
	if err := s.open(&c.Record); err != nil {
		return retrysafe.Claim{}, err
	}
	return c, nil
}

// Checkpoint implements retrysafe.Store.
func (s *sealed) Checkpoint(ctx context.Context, l retrysafe.Lease, step retrysafe.StepResult) error {
	step.Data = s.seal(step.Data, l.Key, "step "+step.Name)
	return s.inner.Checkpoint(ctx, l, step)
}

// Complete implements retrysafe.Store.
func (s *sealed) Complete(ctx context.Context, l retrysafe.Lease, r retrysafe.Result, keep retrysafe.Retention) error {
	r.Meta, r.Body = s.seal(r.Meta, l.Key, "meta"), s.seal(r.Body, l.Key, "body")
	return s.inner.Complete(ctx, l, r, keep)
}

// Inspect implements retrysafe.Inspector.
func (s *sealed) Inspect(ctx context.Context, d retrysafe.Digest) ([]retrysafe.Record, error) {
	records, err := s.inner.Inspect(ctx, d)
	for i := range records {
		if err := s.open(&records[i]); err != nil {
			return nil, err
		}
	}
	return records, err
}

// open decrypts a record in place. The store returns copies, so they may be overwritten.
func (s *sealed) open(r *retrysafe.Record) (err error) {
	if r.Result.Meta, err = s.unseal(r.Result.Meta, r.Key, "meta"); err != nil {
		return err
	}
	if r.Result.Body, err = s.unseal(r.Result.Body, r.Key, "body"); err != nil {
		return err
	}
	for i, step := range r.Steps {
		if r.Steps[i].Data, err = s.unseal(step.Data, r.Key, "step "+step.Name); err != nil {
			return err
		}
	}
	return nil
}

// seal encrypts b and binds it to the key and the field, so that it cannot be decrypted as another one. Empty data
// stays empty, because the store returns empty data once a body has been dropped.
func (s *sealed) seal(b []byte, k retrysafe.Key, place string) []byte {
	if len(b) == 0 {
		return b
	}
	return s.aead.Seal(nil, nil, b, []byte(k.String()+" "+place))
}

func (s *sealed) unseal(b []byte, k retrysafe.Key, place string) ([]byte, error) {
	if len(b) == 0 {
		return b, nil
	}
	opened, err := s.aead.Open(nil, nil, b, []byte(k.String()+" "+place))
	if err != nil {
		return nil, fmt.Errorf("the %s of key %s: %w", place, k, err)
	}
	return opened, nil
}
