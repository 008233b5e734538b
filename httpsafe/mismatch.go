package httpsafe

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
)

// checks are short digests of a request's parts: method, target, headers and body, four characters each. They are
// stored with the response, only to tell a client which part of another request under the same key differs; whether
// one differs is decided by the fingerprint.
type checks [16]byte

// checksOf returns the checks of a request.
func (f *fingerprinter) checksOf(request *compared) (c checks) {
	if f.ofBody == nil {
		return c
	}
	copy(c[0:4], "    ")
	copy(c[0:4], request.head[methodPart]) // no secret
	f.check(c[4:8], request.head[targetPart:headersPart]...)
	f.check(c[8:12], request.head[headersPart:]...)
	if f.secret != nil {
		f.check(c[12:16], string(request.body[:]))
	} else {
		base64.RawURLEncoding.Encode(c[12:16], request.body[:3])
	}
	return c
}

// check writes the check of some parts.
func (f *fingerprinter) check(out []byte, parts ...string) {
	var buf [512]byte
	b := append(buf[:0], f.secret...)
	for _, p := range parts {
		b = binary.AppendUvarint(b, uint64(len(p)))
		b = append(b, p...)
	}
	sum := sha256.Sum256(b)
	base64.RawURLEncoding.Encode(out, sum[:3])
}

// mismatch names the parts in which a request differs from the one that was stored; none if that is not known.
func (c checks) mismatch(stored string) []string {
	if len(stored) != len(c) {
		return nil
	}
	var names []string
	for i, name := range [...]string{"method", "target", "headers", "body"} {
		if string(c[4*i:4*i+4]) != stored[4*i:4*i+4] {
			names = append(names, name)
		}
	}
	return names
}
