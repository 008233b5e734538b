package retrysafe

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"hash"
	"strings"
	"sync"
)

// Fingerprint is a digest of the request that first used a key, behind the name of the algorithm that made it:
// "raw1:" and 43 characters. Stores compare fingerprints byte for byte; a Guard compares them with Matches.
// An empty Fingerprint matches everything.
type Fingerprint string

// Matches reports whether both stand for the same request, as far as can be told: fingerprints made by different
// algorithms (the configuration or the secret has changed since) cannot be compared, and match. Their digests are
// compared in constant time.
func (f Fingerprint) Matches(other Fingerprint) bool {
	if !f.Comparable(other) {
		return true
	}
	return subtle.ConstantTimeCompare([]byte(f), []byte(other)) == 1
}

// Comparable reports whether both were made by the same algorithm.
func (f Fingerprint) Comparable(other Fingerprint) bool {
	return f != "" && other != "" && f.algorithm() == other.algorithm()
}

func (f Fingerprint) algorithm() string {
	alg, _, _ := strings.Cut(string(f), ":")
	return alg
}

// Fingerprinter makes fingerprints. It is safe for concurrent use.
type Fingerprinter struct {
	alg       string
	digesters sync.Pool
}

// digester is what one Sum works with.
type digester struct {
	hash hash.Hash
	buf  [512]byte
	sum  [sha256.Size]byte
}

// NewFingerprinter returns a Fingerprinter for the algorithm named alg, which must not contain a colon. Change the
// name whenever the parts given to Sum change their meaning: old records are then not compared with new requests,
// instead of being taken for mismatches.
//
// With a secret, fingerprints are HMAC-SHA-256, so that a stored one does not let a reader guess a request
// of few possible values; the name gets a suffix that depends on the secret. Without, they are plain SHA-256.
func NewFingerprinter(alg string, secret []byte) *Fingerprinter {
	f := &Fingerprinter{alg: alg}
	newHash := sha256.New
	if len(secret) > 0 {
		secret = bytes.Clone(secret)
		newHash = func() hash.Hash { return hmac.New(sha256.New, secret) }
		f.alg += "." + secretName(newHash())
	}
	f.digesters.New = func() any { return &digester{hash: newHash()} }
	return f
}

// secretName tells secrets apart without revealing them.
func secretName(h hash.Hash) string {
	h.Write([]byte("retrysafe fingerprint secret"))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:6])
}

// Sum returns the fingerprint of parts. Each part counts with its length, so that moving bytes from one part to the
// next changes the fingerprint.
func (f *Fingerprinter) Sum(parts ...string) Fingerprint {
	d := f.digesters.Get().(*digester)
	defer f.digesters.Put(d)
	text := make([]byte, 0, 128)
	text = append(append(text, f.alg...), ':')
	return Fingerprint(base64.RawURLEncoding.AppendEncode(text, d.digest(parts)))
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
