package cryptstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/sealed"
)

// IsSealed reports whether content was encrypted by a Store: for tools that have opened the inner store without one.
func IsSealed(content []byte) bool { return sealed.Is(content) }

// place is where content is: the kind of a part of a result or of a step, and what belongs to it. It is part of the
// associated data, so that a ciphertext is good in one place only.
type place struct {
	kind sealed.Kind
	rest []byte
}

// ofResult returns the place of a part of r. The rest of r belongs to it: a failure cannot be turned into a success, nor
// one of the two be dropped.
func ofResult(kind sealed.Kind, r retrysafe.Result) place {
	var flags byte
	for i, set := range []bool{r.Failed, r.Omitted, len(r.Meta) > 0, len(r.Body) > 0} {
		if set {
			flags |= 1 << i
		}
	}
	return place{kind, binary.BigEndian.AppendUint32([]byte{flags}, uint32(int32(r.Code)))}
}

func ofStep(name string) place { return place{sealed.Step, []byte(name)} }

// data returns the associated data of the place for a key.
func (p place) data(d retrysafe.Digest) []byte { return sealed.Place(d, p.kind, p.rest...) }

// String names the place in errors.
func (p place) String() string {
	switch p.kind {
	case sealed.Meta:
		return "the meta of its answer"
	case sealed.Step:
		return fmt.Sprintf("its step %q", p.rest)
	}
	return "the body of its answer"
}

// SealResult implements [retrysafe.Sealer].
func (s *Store) SealResult(k retrysafe.Key, r retrysafe.Result) (encrypted retrysafe.Result, err error) {
	encrypted = r
	if encrypted.Meta, err = s.seal(k, ofResult(sealed.Meta, r), r.Meta); err != nil {
		return retrysafe.Result{}, err
	}
	if encrypted.Body, err = s.seal(k, ofResult(sealed.Body, r), r.Body); err != nil {
		return retrysafe.Result{}, err
	}
	return encrypted, nil
}

// SealStep implements [retrysafe.Sealer]. Steps of the trail stay as they are.
func (s *Store) SealStep(k retrysafe.Key, step retrysafe.StepResult) (encrypted retrysafe.StepResult, err error) {
	if isTrail(step) {
		return step, nil
	}
	data, err := s.seal(k, ofStep(step.Name), step.Data)
	return retrysafe.StepResult{Name: step.Name, Data: data}, err
}

func isTrail(s retrysafe.StepResult) bool {
	return strings.HasPrefix(s.Name, retrysafe.AuditStepPrefix)
}

// seal encrypts content. Empty content stays empty.
func (s *Store) seal(k retrysafe.Key, at place, content []byte) ([]byte, error) {
	if len(content) == 0 || s.plaintext == PlaintextWritten {
		return content, nil
	}
	encrypted, err := sealed.Seal(s.keys, content, at.data(k.Digest()))
	if err != nil {
		return nil, fmt.Errorf("encrypt %s: %w", at, err)
	}
	return encrypted, nil
}

// open decrypts the content of a record. What it cannot decrypt it drops from the record, and returns an error that
// wraps retrysafe.ErrUnreadable.
func (s *Store) open(r *retrysafe.Record) error {
	d := r.Key.Digest()
	err := s.openAnswer(d, &r.Result)
	if err != nil {
		r.Result.Meta, r.Result.Body = nil, nil
	}
	for i, step := range r.Steps {
		if isTrail(step) {
			continue
		}
		var stepErr error
		r.Steps[i].Data, stepErr = s.unseal(d, ofStep(step.Name), step.Data)
		err = errors.Join(err, stepErr)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", retrysafe.ErrUnreadable, err)
	}
	return nil
}

// openAnswer decrypts the parts of an answer.
func (s *Store) openAnswer(d retrysafe.Digest, r *retrysafe.Result) error {
	stored := *r
	if len(stored.Meta) > 0 && len(stored.Body) > 0 && IsSealed(stored.Meta) != IsSealed(stored.Body) {
		return s.openOfService(d, r)
	}
	var metaErr, bodyErr error
	r.Meta, metaErr = s.unseal(d, ofResult(sealed.Meta, stored), stored.Meta)
	r.Body, bodyErr = s.unseal(d, ofResult(sealed.Body, stored), stored.Body)
	return errors.Join(metaErr, bodyErr)
}

// openOfService decrypts the answer of a service that has encrypted it itself: both parts are in its body. The meta that
// the SQL functions have stored beside it is not encrypted, and does not count.
func (s *Store) openOfService(d retrysafe.Digest, r *retrysafe.Result) error {
	joined, err := s.decrypt(d, ofResult(sealed.Answer, *r), r.Body)
	if err == nil {
		r.Meta, r.Body, err = sealed.Split(joined)
	}
	if err != nil {
		return fmt.Errorf("a part of its answer is encrypted and the other is not, and it is not of a service that encrypts: "+
			"the record was changed, or %w", err)
	}
	return nil
}

// unseal decrypts content, or returns it as it is if it is plaintext and may be.
func (s *Store) unseal(d retrysafe.Digest, at place, content []byte) ([]byte, error) {
	switch {
	case len(content) == 0:
		return content, nil
	case IsSealed(content):
		return s.decrypt(d, at, content)
	case s.plaintext == PlaintextRefused:
		return nil, fmt.Errorf("%s is not encrypted: it is of before encryption was switched on, was written by a service "+
			"itself, or was made up; PlaintextAccepted (in the proxy's file plaintext: accept) reads it", at)
	}
	return content, nil
}

func (s *Store) decrypt(d retrysafe.Digest, at place, content []byte) ([]byte, error) {
	opened, err := sealed.Open(s.keys, content, at.data(d))
	if err == nil && len(opened) == 0 {
		err = errors.New("is empty, and empty content is never encrypted: it was changed")
	}
	if err != nil {
		return nil, fmt.Errorf("%s %w", at, err)
	}
	return opened, nil
}
