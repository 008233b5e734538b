package rpcsafe

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/runtime/protoimpl"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/fingerprint"
)

// FingerprintMethod decides which requests with the same key count as different. The called method always counts, the
// field that carries the key never does.
type FingerprintMethod struct {
	name      string                                      // of the algorithm
	ofMessage func(method string, m proto.Message) string // nil: messages are not compared
	err       error
}

// encoding names the library's way of writing messages. Deterministic is not canonical: another version of the
// library may write the same message differently.
func encoding() string { return fmt.Sprintf("go1.%d", protoimpl.MaxVersion) }

// FingerprintMessage compares whole messages, including fields that the server does not know. The bytes of a message
// are stable only within one version of the protobuf library, so the version is part of the algorithm's name: during
// an upgrade, requests are not compared with records that another version has made. Use FingerprintFields where
// servers run several versions for long.
func FingerprintMessage() FingerprintMethod { return FingerprintExcept() }

// FingerprintExcept compares messages without these fields: timestamps, trace IDs, and others that may change from
// one retry to the next. Names of nested fields are joined by dots.
func FingerprintExcept(fields ...string) FingerprintMethod {
	except, err := fieldsOf(fields)
	name := "proto1-" + encoding()
	if len(except) > 0 {
		name = "protobut1-" + encoding() + "-" + shortHash(fields...)
	}
	return FingerprintMethod{name: name, err: err, ofMessage: func(_ string, m proto.Message) string {
		return deterministic(without(m, except...))
	}}
}

// FingerprintFields compares only these fields, so it must name everything that makes one request differ from
// another. Fields that are numbers, text or bytes are compared across all versions of the protobuf library.
func FingerprintFields(fields ...string) FingerprintMethod {
	chosen, err := fieldsOf(fields)
	if len(fields) == 0 {
		err = errors.New("FingerprintFields needs at least one field")
	}
	return FingerprintMethod{
		name: "protofields1-" + shortHash(fields...), err: err,
		ofMessage: func(_ string, m proto.Message) string {
			parts := make([]string, len(chosen))
			for i, f := range chosen {
				parts[i] = f.bytes(m)
			}
			return retrysafe.Scope(parts...)
		},
	}
}

// FingerprintFunc compares the texts that f returns for requests. name stands for f in the records: change it
// whenever f changes, so that old records are not compared with new requests.
func FingerprintFunc(name string, f func(method string, m proto.Message) string) FingerprintMethod {
	method := FingerprintMethod{name: "custom-" + shortHash(name), ofMessage: f}
	if name == "" || f == nil {
		method.err = errors.New("FingerprintFunc needs a name and a function")
	}
	return method
}

// FingerprintNone compares methods only: the first message with a key decides for all that follow.
func FingerprintNone() FingerprintMethod { return FingerprintMethod{name: "none2"} }

func fieldsOf(names []string) ([]field, error) {
	fields := make([]field, len(names))
	for i, name := range names {
		if !isPath(name) {
			return nil, fmt.Errorf("%q is not a field: write its name, or names joined by dots", name)
		}
		fields[i] = field(name)
	}
	slices.Sort(fields)
	return fields, nil
}

// shortHash returns a short digest of a list of names. Their order does not matter.
func shortHash(names ...string) string {
	sum := sha256.Sum256([]byte(retrysafe.Scope(slices.Sorted(slices.Values(names))...)))
	return hex.EncodeToString(sum[:6])
}

// fingerprinter makes the fingerprints of one Server.
type fingerprinter struct {
	*fingerprint.Algorithm
	ofMessage func(method string, m proto.Message) string // nil: messages are not compared
	id        []field                                     // the field that carries the key: it is not compared
}

func newFingerprinter(o Options) *fingerprinter {
	method := o.Fingerprint
	f := &fingerprinter{Algorithm: fingerprint.New(method.name, o.Secret), ofMessage: method.ofMessage}
	if o.KeyField != "" {
		f.id = []field{field(o.KeyField)}
	}
	return f
}

// of returns the fingerprint of a call.
func (f *fingerprinter) of(c Call) retrysafe.Fingerprint {
	if f.ofMessage == nil {
		return f.Sum("v1", c.Method)
	}
	text := f.ofMessage(c.Method, without(c.Request, f.id...))
	return f.Sum("v1", c.Method, string(c.Request.ProtoReflect().Descriptor().FullName()), text)
}
