package fingerprint

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash"
	"strings"
	"sync"

	"github.com/retrysafe/retrysafe"
)

// Algorithm makes fingerprints: it has a name, and a secret if they are HMACs. It is safe for concurrent use.
type Algorithm struct {
	name      string
	digesters sync.Pool
}

// digester is the memory that one Sum works with.
type digester struct {
	hash hash.Hash
	buf  [512]byte
	sum  [sha256.Size]byte
}

// New returns the algorithm of that name, which must not contain a colon. Change the name whenever the parts given to
// Sum change their meaning: then records made before are not compared with new requests, instead of being taken for
// mismatches.
//
// With a secret, fingerprints are HMAC-SHA-256, so that a reader of the store cannot guess a request that has few
// possible values; the name gets a suffix that depends on the secret. Without a secret, they are plain SHA-256. New
// copies the secret. It panics if the name contains a colon.
func New(name string, secret []byte) *Algorithm {
	if strings.Contains(name, ":") {
		panic(fmt.Sprintf("fingerprint: the name %q of an algorithm contains a colon", name))
	}
	a := &Algorithm{name: name}
	newHash := sha256.New
	if len(secret) > 0 {
		secret = bytes.Clone(secret)
		newHash = func() hash.Hash { return hmac.New(sha256.New, secret) }
		a.name += "." + secretName(newHash())
	}
	a.digesters.New = func() any { return &digester{hash: newHash()} }
	return a
}

// secretName names a secret without revealing it, so that fingerprints made with different secrets are not compared.
func secretName(h hash.Hash) string {
	h.Write([]byte("retrysafe fingerprint secret"))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:6])
}

// Sum returns the fingerprint of parts. Each part counts with its length, so that moving bytes from one part to the
// next changes the fingerprint.
func (a *Algorithm) Sum(parts ...string) retrysafe.Fingerprint {
	d := a.digesters.Get().(*digester)
	defer a.digesters.Put(d)
	text := make([]byte, 0, 128)
	text = append(append(text, a.name...), ':')
	return retrysafe.Fingerprint(base64.RawURLEncoding.AppendEncode(text, d.digest(parts)))
}

// digest returns the digest of parts. It is valid until the next call.
func (d *digester) digest(parts []string) []byte {
	d.hash.Reset()
	b := d.buf[:0]
	for _, p := range parts {
		b = binary.AppendUvarint(d.room(b, binary.MaxVarintLen64), uint64(len(p)))
		for len(p) > 0 {
			b = d.room(b, 1)
			n := copy(b[len(b):cap(b)], p)
			b, p = b[:len(b)+n], p[n:]
		}
	}
	d.hash.Write(b)
	return d.hash.Sum(d.sum[:0])
}

// room makes room for n bytes behind b, which is the beginning of buf.
func (d *digester) room(b []byte, n int) []byte {
	if len(b)+n <= cap(b) {
		return b
	}
	d.hash.Write(b)
	return b[:0]
}
