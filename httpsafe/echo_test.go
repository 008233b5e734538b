package httpsafe_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/fingerprint"
	"github.com/retrysafe/retrysafe/httpsafe"
)

// A replay answers under the id of the request that gets it (JSON-RPC 2.0, section 5: "It MUST be the same as the value of
// the id member in the Request Object"). What is stored stays as it is, and so does what cannot be changed.
//
// Seen to fail with ofThisReplay left out of writeStored, with describeDecoded left out of it (the digest of other
// bytes was sent), and with the body not read for FingerprintNone.
func TestEchoFields(t *testing.T) {
	const stored = `{"jsonrpc": "2.0", "result": 1.50, "id": 1}`
	excluded := httpsafe.FingerprintFields(fingerprint.Fields{Exclude: []string{"/id"}})
	for name, c := range map[string]struct {
		coding, stored, asked string
		method                httpsafe.FingerprintMethod
		want                  string
	}{
		"another id":      {"", stored, `{"method":"pay","id":"two"}`, excluded, `{"jsonrpc": "2.0", "result": 1.50, "id": "two"}`},
		"without compare": {"", stored, `{"id":2}`, httpsafe.FingerprintNone(), `{"jsonrpc": "2.0", "result": 1.50, "id": 2}`},
		"the same id":     {"", stored, `{"method":"pay","id":1}`, excluded, stored},
		"no id":           {"", stored, `{"method":"pay"}`, excluded, stored},
		"gzip":            {"gzip", gzipped(stored), `{"method":"pay","id":2}`, excluded, `{"jsonrpc": "2.0", "result": 1.50, "id": 2}`},
		"another coding":  {"br", stored, `{"method":"pay","id":2}`, excluded, stored},
		"no JSON":         {"", "paid", `{"method":"pay","id":2}`, excluded, "paid"},
		"a broken body":   {"", stored, `{"id":2`, httpsafe.FingerprintNone(), stored},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKit(t)
			k.options.Fingerprint, k.options.Profile.EchoFields = c.method, []string{"/id"}
			k.handler = func(w http.ResponseWriter, r *http.Request) {
				if c.coding != "" {
					w.Header().Set("Content-Encoding", c.coding)
				}
				w.Header().Set("Content-Digest", "sha-256=:x:")
				io.WriteString(w, c.stored)
			}
			accepts := header("Accept-Encoding", "gzip, br")
			k.post("k", accepts, body(`{"method":"pay","id":1}`)).want(200).wantBody(c.stored)
			digest := "sha-256=:x:"
			if c.want != stored && c.want != c.stored {
				digest = ""
			}
			for range 2 {
				k.post("k", accepts, body(c.asked)).want(200).wantState("replayed; exp=@EXP").wantBody(c.want).
					wantHeader("Content-Digest", digest)
			}
			k.post("k", accepts, body(`{"method":"pay","id":1}`)).wantBody(c.stored)
			k.wantRuns(1)
		})
	}
}

// Retries with another id must not be mismatches: that is refused where the options are read.
func TestEchoFieldsMustNotBeCompared(t *testing.T) {
	fields := func(include, exclude []string) httpsafe.FingerprintMethod {
		return httpsafe.FingerprintFields(fingerprint.Fields{Include: include, Exclude: exclude})
	}
	for _, c := range []struct {
		method httpsafe.FingerprintMethod
		field  string
		ok     bool
	}{
		{httpsafe.FingerprintMethod{}, "/id", false},
		{httpsafe.FingerprintJSON(), "/id", false},
		{httpsafe.FingerprintForm(), "/id", false},
		{httpsafe.FingerprintNone(), "/id", true},
		{httpsafe.FingerprintNone(), "id", false},
		{httpsafe.FingerprintNone(), "", false},
		{fields([]string{"/params"}, nil), "/id", true},
		{fields([]string{"/params"}, nil), "/params/id", false},
		{fields([]string{"/params/id"}, nil), "/params", false},
		{fields(nil, []string{"/id"}), "/id", true},
		{fields(nil, []string{"/id"}), "/idx", false},
		{fields(nil, []string{"/meta"}), "/meta/id", true},
		{httpsafe.FingerprintFunc("own", func(*http.Request, []byte) string { return "" }), "/id", true},
	} {
		o := httpsafe.Options{Fingerprint: c.method}
		o.Profile = httpsafe.IETF()
		o.Profile.EchoFields = []string{c.field}
		if err := o.Validate(); (err == nil) != c.ok {
			t.Errorf("%v, %q: %v", o.WithDefaults().Fingerprint, c.field, err)
		}
	}
	if rules := (httpsafe.Options{}).Rules("", retrysafe.Policy{}); rules.Echo != nil {
		t.Errorf("the rules name %v", rules.Echo)
	}
}
