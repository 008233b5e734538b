package cryptstore

import (
	"bytes"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/tink"
)

// Keyset is a set of keys: all of them decrypt, and one, the primary key, encrypts. It does not change; Add, Promote
// and Remove return another one. It prints without the keys.
type Keyset struct {
	handle *keyset.Handle
	aead   tink.AEAD
}

// NewKeyset returns a keyset with one key, drawn at random.
func NewKeyset() (*Keyset, error) {
	m := keyset.NewManager()
	id, err := m.Add(aead.XAES256GCM192BitNonceKeyTemplate())
	if err == nil {
		err = m.SetPrimary(id)
	}
	if err != nil {
		return nil, fmt.Errorf("cryptstore: make a keyset: %w", err)
	}
	return made(m)
}

// ParseKeyset reads a keyset from the JSON that Tink and [Keyset.JSON] write. It returns an error if the text is
// another one, or has no primary key, or has keys for something else than encryption with associated data (AEAD). The
// error has nothing of the text.
func ParseKeyset(text []byte) (*Keyset, error) {
	handle, err := insecurecleartextkeyset.Read(keyset.NewJSONReader(bytes.NewReader(text)))
	if err != nil {
		return nil, errors.New("cryptstore: the keyset is not the JSON of a Tink keyset in cleartext: make one with " +
			"retrysafe keyset new, or decrypt it first")
	}
	return of(handle)
}

func made(m *keyset.Manager) (*Keyset, error) {
	handle, err := m.Handle()
	if err != nil {
		return nil, fmt.Errorf("cryptstore: change the keyset: %w", err)
	}
	return of(handle)
}

func of(handle *keyset.Handle) (*Keyset, error) {
	primitive, err := aead.New(handle)
	if err != nil {
		return nil, fmt.Errorf("cryptstore: the keyset has keys that do not encrypt with associated data (AEAD): %w", err)
	}
	return &Keyset{handle, primitive}, nil
}

// JSON returns the keyset as text, with the keys in the clear: a reader of it can read every answer.
func (k *Keyset) JSON() ([]byte, error) {
	var text bytes.Buffer
	err := insecurecleartextkeyset.Write(k.handle, keyset.NewJSONWriter(&text))
	return text.Bytes(), err
}

// String says which keys there are.
func (k *Keyset) String() string { return fmt.Sprintf("keyset of keys %v", k.Keys()) }

// GoString hides the keys from %#v too.
func (k *Keyset) GoString() string { return k.String() }

// KeyInfo is what may be known of a key.
type KeyInfo struct {
	// ID of the key. Each ciphertext has it in its first bytes.
	ID uint32
	// Primary says that new content is encrypted with this key.
	Primary bool
	// Enabled says that the key decrypts.
	Enabled bool
}

// Keys returns what may be known of the keys, the oldest first.
func (k *Keyset) Keys() (all []KeyInfo) {
	for i := range k.handle.Len() {
		if e, err := k.handle.Entry(i); err == nil {
			all = append(all, KeyInfo{e.KeyID(), e.IsPrimary(), e.KeyStatus() == keyset.Enabled})
		}
	}
	return all
}

// Add returns the keyset with one more key, drawn at random, and its ID. It decrypts, and encrypts nothing before it is
// promoted.
func (k *Keyset) Add() (*Keyset, uint32, error) {
	m := keyset.NewManagerFromHandle(k.handle)
	id, err := m.Add(aead.XAES256GCM192BitNonceKeyTemplate())
	if err != nil {
		return nil, 0, fmt.Errorf("cryptstore: add a key: %w", err)
	}
	more, err := made(m)
	return more, id, err
}

// Promote returns the keyset with this key as the primary one. It returns an error if there is no such key.
func (k *Keyset) Promote(id uint32) (*Keyset, error) {
	m := keyset.NewManagerFromHandle(k.handle)
	if err := m.SetPrimary(id); err != nil {
		return nil, fmt.Errorf("cryptstore: promote key %d: %w", id, err)
	}
	return made(m)
}

// Remove returns the keyset without this key: what it has encrypted cannot be read any more. It returns an error if
// there is no such key, or if it is the primary one.
func (k *Keyset) Remove(id uint32) (*Keyset, error) {
	m := keyset.NewManagerFromHandle(k.handle)
	if err := m.Delete(id); err != nil {
		return nil, fmt.Errorf("cryptstore: remove key %d: %w", id, err)
	}
	return made(m)
}

// Keyring encrypts and decrypts with a keyset that can be replaced while it is in use. It implements tink.AEAD, and is
// safe for concurrent use.
type Keyring struct{ keyset atomic.Pointer[Keyset] }

var _ tink.AEAD = (*Keyring)(nil)

// NewKeyring returns a Keyring with this keyset.
func NewKeyring(k *Keyset) *Keyring {
	r := new(Keyring)
	r.Use(k)
	return r
}

// Use replaces the keyset, for everything that is encrypted or decrypted from now on.
func (r *Keyring) Use(k *Keyset) { r.keyset.Store(k) }

// Encrypt implements tink.AEAD, with the primary key.
func (r *Keyring) Encrypt(plaintext, associatedData []byte) ([]byte, error) {
	return r.keyset.Load().aead.Encrypt(plaintext, associatedData)
}

// Decrypt implements tink.AEAD, with the key that has encrypted.
func (r *Keyring) Decrypt(ciphertext, associatedData []byte) ([]byte, error) {
	return r.keyset.Load().aead.Decrypt(ciphertext, associatedData)
}
