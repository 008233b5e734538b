package httpsafe

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
)

// checks are short digests of a request's parts: method, target, headers and body, four characters each. They are
// stored with the response, only to tell a client which part of another request under the same key differs; whether
// one differs is decided by the fingerprint.
type checks [16]byte

// checksOf returns the checks of a request that has these digests.
func (f *fingerprinter) checksOf(r *http.Request, d *digests) (c checks) {
	if f.ofBody == nil {
		return c
	}
	copy(c[0:4], "    ")
	copy(c[0:4], r.Method) // no secret
	f.check(c[4:8], d.target)
	f.check(c[8:12], d.headers)
	f.check(c[12:16], d.body)
	return c
}

// check writes the check for a digest. With a secret it does not let anybody who reads it guess what was digested.
func (f *fingerprinter) check(out []byte, digest [sha256.Size]byte) {
	if f.keyed {
		digest = digestOf(string(f.secret[:]), string(digest[:]))
	}
	base64.RawURLEncoding.Encode(out, digest[:3])
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
