// Package plain does what most articles advise: it writes a row or a key before the operation and after it, without
// leases, fences and sweeps. The values are those of our stores, so that each side saves the same bytes. It also runs
// the benchmark programs that come with the servers.
package plain

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
)

// newKey returns a fresh key, its owner, and the key as text.
func newKey() (key, owner [16]byte, id []byte) {
	_, _ = rand.Read(key[:])
	_, _ = rand.Read(owner[:])
	return key, owner, hex.AppendEncode(nil, key[:])
}

var errNotFresh = errors.New("a fresh key already existed")
