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

// FingerprintMethod says what tells two requests with the same key apart, beside the method. The adapters document the methods.
type FingerprintMethod struct {
	name      string                                      // of the algorithm
	ofMessage func(method string, m proto.Message) string // nil: messages are not compared
	err       error
}

// encoding names how messages are written: deterministic is not canonical, another version of the library may write them differently.
func encoding() string { return fmt.Sprintf("go1.%d", protoimpl.MaxVersion) }

// FingerprintMessage compares whole messages.
func FingerprintMessage() FingerprintMethod { return FingerprintExcept() }

// FingerprintExcept compares messages but for these fields.
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

// FingerprintFields compares these fields.
func FingerprintFields(fields ...string) FingerprintMethod {
	chosen, err := fieldsOf(fields)
	if len(fields) == 0 {
		err = errors.New("FingerprintFields needs at least one field")
	}
	return FingerprintMethod{name: "protofields1-" + shortHash(fields...), err: err, ofMessage: func(_ string, m proto.Message) string {
		parts := make([]string, len(chosen))
		for i, f := range chosen {
			parts[i] = f.bytes(m)
		}
		return retrysafe.Scope(parts...)
	}}
}

// FingerprintFunc compares what f makes of a request.
func FingerprintFunc(name string, f func(method string, m proto.Message) string) FingerprintMethod {
	method := FingerprintMethod{name: "custom-" + shortHash(name), ofMessage: f}
	if name == "" || f == nil {
		method.err = errors.New("FingerprintFunc needs a name and a function")
	}
	return method
}

// FingerprintNone compares methods only.
func FingerprintNone() FingerprintMethod { return FingerprintMethod{name: "none2"} }

func fieldsOf(names []string) ([]field, error) {
	fields := make([]field, len(names))
	for i, name := range names {
		if !isPath(name) {
			return nil, fmt.Errorf("%q is no field: write its name, or names with dots between them", name)
		}
		fields[i] = field(name)
	}
	slices.Sort(fields)
	return fields, nil
}

// shortHash tells lists of names apart, whatever their order.
func shortHash(names ...string) string {
	sum := sha256.Sum256([]byte(retrysafe.Scope(slices.Sorted(slices.Values(names))...)))
	return hex.EncodeToString(sum[:6])
}

// fingerprinter makes the fingerprints of one Server.
type fingerprinter struct {
	*fingerprint.Algorithm
	ofMessage func(method string, m proto.Message) string // nil: messages are not compared
	id        []field                                     // carries the key, and does not count
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
