package cryptstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/retrysafe/retrysafe"
)

// marker begins all that is encrypted. Its first byte occurs in no UTF-8, so that no JSON and no text begins with it;
// the last one is the version of the format. Plaintext of a service that begins with it all the same is refused, never
// returned: it does not decrypt.
const marker = "\xf5retrysafe\x01"

// IsSealed reports whether content was encrypted by a Store: for tools that have opened the inner store without one.
func IsSealed(content []byte) bool { return bytes.HasPrefix(content, []byte(marker)) }

// place is where content is: the kind of a part of a result or of a step, and what belongs to it. It is part of the
// associated data, so that a ciphertext is good in one place only.
type place struct {
	kind byte
	rest []byte
}

const (
	metaKind = 'm'
	bodyKind = 'b'
	stepKind = 's'
)

// ofResult returns the place of Meta or Body in r. The rest of r belongs to it: a failure cannot be turned into a
// success, nor one of the two be dropped.
func ofResult(kind byte, r retrysafe.Result) place {
	var flags byte
	for i, set := range []bool{r.Failed, r.Omitted, len(r.Meta) > 0, len(r.Body) > 0} {
		if set {
			flags |= 1 << i
		}
	}
	return place{kind, binary.BigEndian.AppendUint32([]byte{flags}, uint32(int32(r.Code)))}
}

func ofStep(name string) place { return place{stepKind, []byte(name)} }

// data returns the associated data of the place for a key.
func (p place) data(d retrysafe.Digest) []byte {
	data := make([]byte, 0, len(marker)+len(d)+1+len(p.rest))
	data = append(append(data, marker...), d[:]...)
	return append(append(data, p.kind), p.rest...)
}

// String names the place in errors.
func (p place) String() string {
	switch p.kind {
	case metaKind:
		return "the meta of its answer"
	case bodyKind:
		return "the body of its answer"
	}
	return fmt.Sprintf("its step %q", p.rest)
}

// SealResult implements [retrysafe.Sealer].
func (s *Store) SealResult(k retrysafe.Key, r retrysafe.Result) (sealed retrysafe.Result, err error) {
	sealed = r
	if sealed.Meta, err = s.seal(k, ofResult(metaKind, r), r.Meta); err != nil {
		return retrysafe.Result{}, err
	}
	if sealed.Body, err = s.seal(k, ofResult(bodyKind, r), r.Body); err != nil {
		return retrysafe.Result{}, err
	}
	return sealed, nil
}

// SealStep implements [retrysafe.Sealer]. Steps of the trail stay as they are.
func (s *Store) SealStep(k retrysafe.Key, step retrysafe.StepResult) (sealed retrysafe.StepResult, err error) {
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
	encrypted, err := s.keys.Encrypt(content, at.data(k.Digest()))
	if err != nil {
		return nil, fmt.Errorf("encrypt %s: %w", at, err)
	}
	return append([]byte(marker), encrypted...), nil
}

// open decrypts the content of a record. What it cannot decrypt it drops from the record, and returns an error that
// wraps retrysafe.ErrUnreadable.
func (s *Store) open(r *retrysafe.Record) error {
	d, stored := r.Key.Digest(), r.Result
	var metaErr, bodyErr error
	r.Result.Meta, metaErr = s.unseal(d, ofResult(metaKind, stored), stored.Meta)
	r.Result.Body, bodyErr = s.unseal(d, ofResult(bodyKind, stored), stored.Body)
	err := errors.Join(metaErr, bodyErr)
	if err == nil && len(stored.Meta) > 0 && len(stored.Body) > 0 && IsSealed(stored.Meta) != IsSealed(stored.Body) {
		err = errors.New("a part of its answer is encrypted and the other is not: the record was changed")
	}
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

// unseal decrypts content, or returns it as it is if it is plaintext and may be.
func (s *Store) unseal(d retrysafe.Digest, at place, content []byte) ([]byte, error) {
	switch {
	case len(content) == 0:
		return content, nil
	case IsSealed(content):
		return s.decrypt(d, at, content[len(marker):])
	case s.plaintext == PlaintextRefused:
		return nil, fmt.Errorf("%s is not encrypted: it is of before encryption was switched on, was written by a service "+
			"itself, or was made up; PlaintextAccepted (in the proxy's file plaintext: accept) reads it", at)
	}
	return content, nil
}

func (s *Store) decrypt(d retrysafe.Digest, at place, encrypted []byte) ([]byte, error) {
	content, err := s.keys.Decrypt(encrypted, at.data(d))
	if err != nil || len(content) == 0 { // empty content is never encrypted
		return nil, fmt.Errorf("%s cannot be decrypted%s: if the keyset lacks that key, put it back; otherwise the record "+
			"was changed, or is not this key's", at, byKey(encrypted))
	}
	return content, nil
}

// byKey names the key that has encrypted something, as the prefix says that the keys of a keyset write.
func byKey(encrypted []byte) string {
	if len(encrypted) < 5 || encrypted[0] != 1 {
		return ""
	}
	return fmt.Sprintf(" (it names key %d)", binary.BigEndian.Uint32(encrypted[1:]))
}
