package httpsafe

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strings"

	"github.com/retrysafe/retrysafe"
)

// checks are short digests of parts of a request: method, target, headers and body, four characters each, and the
// name of the secret that they were made with. They are stored with the response, so that a client can be told in
// which part a different request under the same key differs.
//
// The fingerprint decides whether a request differs. But the fingerprints of routes with different options cannot be
// compared; there method and target decide (see otherOperation). Headers and body that are not compared have no
// check.
type checks [20]byte

// noCheck stands where there is no check. A digest contains no dot.
const noCheck = "...."

// Where checks have what is digested, and the secret's name.
const operationChecks, requestChecks = 8, 16

// checksOf returns the checks of a request.
func (f *fingerprinter) checksOf(request *compared) (c checks) {
	f.checkOperation(c[:operationChecks], request, request.head[targetPart])
	switch {
	case f.ofBody == nil:
		copy(c[8:16], noCheck+noCheck)
	case f.secret != nil:
		f.checkHeaders(c[8:12], request)
		f.check(c[12:16], string(request.body[:]))
	default:
		f.checkHeaders(c[8:12], request)
		base64.RawURLEncoding.Encode(c[12:16], request.body[:3])
	}
	copy(c[requestChecks:], f.secretName[:])
	return c
}

// otherOperation reports whether a stored response answers a request with another method, path or query, or a gRPC or
// Connect call. known is the fingerprint of the request that it was made for.
func (f *fingerprinter) otherOperation(request *compared, known retrysafe.Fingerprint, meta []byte) bool {
	if bytes.HasPrefix(meta, []byte(`{"form":"rpc/`)) { // as rpcsafe begins it
		return true
	}
	_, stored, ok := bytes.Cut(meta, []byte("\n@"+aboutChecks+": "))
	if !ok || len(stored) != len(checks{})+len("\n") {
		return false
	}
	if !bytes.Equal(stored[requestChecks:len(checks{})], f.secretName[:]) { // the checks cannot be compared
		return false
	}
	var now [operationChecks]byte
	host := request.host
	if algorithm, _, _ := strings.Cut(string(known), ":"); strings.Contains(algorithm, anyHostMark) {
		host = ""
	}
	f.checkOperation(now[:], request, host)
	return !bytes.Equal(stored[:operationChecks], now[:])
}

// checkOperation writes the checks of method and target. host is the one in the target, or empty if it is not compared.
func (f *fingerprinter) checkOperation(out []byte, request *compared, host string) {
	copy(out[0:4], "    ")
	copy(out[0:4], request.head[methodPart]) // no secret
	if request.head[overridePart] != "" {
		f.check(out[0:4], request.head[methodPart:targetPart]...)
	}
	target := [headersPart - targetPart]string(request.head[targetPart:headersPart])
	target[0] = host
	f.check(out[4:8], target[:]...)
}

// headersCheck is the check of the headers that are compared.
type headersCheck struct {
	headers [headLen - headersPart]string
	check   [4]byte
}

// checkHeaders writes the check of the headers that are compared. The last one is cached: most requests have the same
// Content-Type and no other of these headers.
func (f *fingerprinter) checkHeaders(out []byte, request *compared) {
	headers := [headLen - headersPart]string(request.head[headersPart:])
	last := f.lastHeaders.Load()
	if last == nil || last.headers != headers {
		last = &headersCheck{headers: headers}
		f.check(last.check[:], headers[:]...)
		f.lastHeaders.Store(last)
	}
	copy(out, last.check[:])
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

// mismatch names the parts in which a request differs from the stored one; none if that is unknown.
func (c checks) mismatch(stored string) []string {
	if len(stored) != len(c) || stored[requestChecks:] != string(c[requestChecks:]) {
		return nil
	}
	var names []string
	for i, name := range [...]string{"method", "target", "headers", "body"} {
		now, then := string(c[4*i:4*i+4]), stored[4*i:4*i+4]
		if now != then && now != noCheck && then != noCheck {
			names = append(names, name)
		}
	}
	return names
}
