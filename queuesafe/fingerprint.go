package queuesafe

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/fingerprint"
)

// FingerprintMethod decides which part of a body makes one message differ from another. [FingerprintRaw],
// [FingerprintJSON], [FingerprintFields] and [FingerprintNone] return one; the zero value is FingerprintRaw().
type FingerprintMethod struct {
	kind   string // "" is raw
	fields fingerprint.Fields
}

// FingerprintRaw compares bodies byte for byte.
func FingerprintRaw() FingerprintMethod { return FingerprintMethod{} }

// FingerprintJSON compares JSON bodies without regard to white space and the order of members. Bodies that are not JSON
// are compared byte for byte.
func FingerprintJSON() FingerprintMethod { return FingerprintMethod{kind: "json"} }

// FingerprintFields compares chosen fields of JSON bodies. Exclude fields that a producer changes when it sends a
// message again, such as the time of sending. Bodies that are not JSON are compared byte for byte.
func FingerprintFields(f fingerprint.Fields) FingerprintMethod {
	return FingerprintMethod{kind: "json", fields: f}
}

// FingerprintNone compares nothing: all messages with the same key count as the same message.
func FingerprintNone() FingerprintMethod { return FingerprintMethod{kind: "none"} }

// fingerprinting computes the fingerprints of one consumer.
type fingerprinting struct {
	method  FingerprintMethod
	headers []string
	sum     *fingerprint.Algorithm
}

func newFingerprinting(o Options) fingerprinting {
	f := fingerprinting{method: o.Fingerprint, headers: slices.Clone(o.FingerprintHeaders)}
	f.sum = fingerprint.New(f.algorithm(), o.Secret)
	return f
}

// algorithm returns a name for what is compared. After a change of it, new messages are not compared with old records.
func (f fingerprinting) algorithm() string {
	name := "queue1" + f.method.kind
	if len(f.headers) == 0 && len(f.method.fields.Include)+len(f.method.fields.Exclude) == 0 {
		return name
	}
	what := fmt.Sprintf("%q %q %q", f.method.fields.Include, f.method.fields.Exclude, f.headers)
	digest := sha256.Sum256([]byte(what))
	return name + "." + hex.EncodeToString(digest[:4])
}

func (f fingerprinting) of(m Message) retrysafe.Fingerprint {
	if f.method.kind == "none" {
		return ""
	}
	parts := append(make([]string, 0, 2+len(f.headers)), f.body(m.Body)...)
	for _, name := range f.headers {
		values := m.Header.Values(name)
		slices.Sort(values)
		parts = append(parts, strings.Join(values, "\x00"))
	}
	return f.sum.Sum(parts...)
}

func (f fingerprinting) body(body []byte) []string {
	if f.method.kind == "json" {
		if canonical, err := f.method.fields.Canonical(body); err == nil {
			return []string{"json", string(canonical)}
		}
	}
	return []string{"raw", string(body)}
}
