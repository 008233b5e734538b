// Package sealed is the format of what Retrysafe encrypts: answers and steps in a store, messages in an outbox, entries
// in a journal. A ciphertext stands behind a marker, and is bound to its place. The clients for Python and Node write
// and read the same format; clients/testdata/sealed.json has its vectors.
package sealed

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// Marker begins all that is encrypted. Its first byte occurs in no UTF-8, so that no JSON and no text begins with it;
// the last one is the version of the format. Plaintext that begins with it all the same is refused, never returned: it
// does not decrypt.
const Marker = "\xf5retrysafe\x01"

// Is reports whether content begins as what is encrypted does.
func Is(content []byte) bool { return bytes.HasPrefix(content, []byte(Marker)) }

// AEAD encrypts with associated data, as tink.AEAD does.
type AEAD interface {
	Encrypt(plaintext, associatedData []byte) ([]byte, error)
	Decrypt(ciphertext, associatedData []byte) ([]byte, error)
}

// Kind says what a ciphertext is. A ciphertext of one kind is none of another, whatever else the two have in common.
type Kind byte

// The kinds.
const (
	Meta    Kind = 'm' // of an answer
	Body    Kind = 'b' // of an answer
	Step    Kind = 's'
	Answer  Kind = 'a' // meta and body in one, as a service writes it, beside meta in the clear that says nothing
	Message Kind = 'o' // of an outbox: header and body in one
	Entry   Kind = 'j' // of a client's journal
)

// Place returns the associated data of a place: the digest of its key, its kind, and what else belongs to it. Digests
// have one length, so that no two places have the same data.
func Place(digest [16]byte, kind Kind, rest ...byte) []byte {
	data := make([]byte, 0, len(Marker)+len(digest)+1+len(rest))
	data = append(append(data, Marker...), digest[:]...)
	return append(append(data, byte(kind)), rest...)
}

// Seal encrypts content for a place.
func Seal(keys AEAD, content, place []byte) ([]byte, error) {
	encrypted, err := keys.Encrypt(content, place)
	if err != nil {
		return nil, err
	}
	return append([]byte(Marker), encrypted...), nil
}

// Open decrypts what Seal has returned for this place. The error begins with a verb: its subject is the caller's.
func Open(keys AEAD, content, place []byte) ([]byte, error) {
	if !Is(content) {
		return nil, errors.New("is not encrypted")
	}
	encrypted := content[len(Marker):]
	if opened, err := keys.Decrypt(encrypted, place); err == nil {
		return opened, nil
	}
	return nil, fmt.Errorf("cannot be decrypted%s: if the keyset lacks that key, put it back; otherwise it was changed, or "+
		"belongs elsewhere", byKey(encrypted))
}

// byKey names the key that has encrypted something, as the prefix says that the keys of a keyset write.
func byKey(encrypted []byte) string {
	if len(encrypted) < 5 || encrypted[0] != 1 {
		return ""
	}
	return fmt.Sprintf(" (it names key %d)", binary.BigEndian.Uint32(encrypted[1:]))
}

// Join makes one content of two, which Split separates again.
func Join(head, rest []byte) []byte {
	joined := make([]byte, 0, binary.MaxVarintLen64+len(head)+len(rest))
	joined = binary.AppendUvarint(joined, uint64(len(head)))
	return append(append(joined, head...), rest...)
}

// Split returns the two parts of what Join has returned.
func Split(joined []byte) (head, rest []byte, err error) {
	n, used := binary.Uvarint(joined)
	if used <= 0 || n > uint64(len(joined)-used) {
		return nil, nil, errors.New("was written by another version: its parts cannot be separated")
	}
	return joined[used : used+int(n)], joined[used+int(n):], nil
}
