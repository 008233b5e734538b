package httpsafe

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe"
)

// FingerprintMethod says what tells two requests with the same key apart. Method, path, query, media type,
// Content-Encoding, Content-Range, If-Match and If-None-Match always count, unless it is FingerprintNone.
type FingerprintMethod struct {
	name    string // of the algorithm; "none": nothing is compared
	ofBody  func(r *http.Request, body []byte) string
	summary string
	streams bool // the handler reads the body while it comes
	err     error
}

func (f FingerprintMethod) isZero() bool { return f.name == "" && f.err == nil }

// String describes the method for people.
func (f FingerprintMethod) String() string { return f.summary }

// FingerprintRaw compares bodies byte for byte.
func FingerprintRaw() FingerprintMethod {
	return FingerprintMethod{name: "raw1", ofBody: rawBody, summary: "raw bytes"}
}

// FingerprintJSON compares JSON bodies without regard to white space and the order of members; numbers count as they
// are written. Bodies that are not JSON are compared byte for byte.
func FingerprintJSON() FingerprintMethod {
	return FingerprintMethod{name: "json1", ofBody: jsonPart(retrysafe.Fields{}), summary: "canonical JSON"}
}

// FingerprintFields compares chosen fields of JSON bodies. Bodies that are not JSON are compared byte for byte.
func FingerprintFields(f retrysafe.Fields) FingerprintMethod {
	f.Include, f.Exclude = slices.Clone(f.Include), slices.Clone(f.Exclude)
	name, summary := "fields1-"+shortHash(f.Include...), "JSON fields "+strings.Join(f.Include, ", ")
	if len(f.Exclude) > 0 {
		name, summary = "but1-"+shortHash(f.Exclude...), "JSON without "+strings.Join(f.Exclude, ", ")
	}
	return FingerprintMethod{name: name, ofBody: jsonPart(f), summary: summary, err: f.Validate()}
}

// FingerprintFunc compares what f makes of a request. name names f; change it whenever f changes, so that old records
// are not compared with new requests.
func FingerprintFunc(name string, f func(r *http.Request, body []byte) string) FingerprintMethod {
	method := FingerprintMethod{name: "custom-" + shortHash(name), ofBody: f, summary: name}
	if name == "" || f == nil {
		method.err = errors.New("httpsafe: FingerprintFunc needs a name and a function")
	}
	return method
}

// FingerprintNone compares nothing: the first request with a key decides for all. Bodies are then not read in advance, and may be of any
// size; a client that sends half of one and falls silent has the key until the handler gives up.
func FingerprintNone() FingerprintMethod {
	return FingerprintMethod{name: "none", summary: "none", streams: true}
}

// fingerprintIgnored compares nothing either, but the key is claimed only when the whole body has come.
func fingerprintIgnored() FingerprintMethod {
	return FingerprintMethod{name: "none", summary: "none"}
}

func rawBody(_ *http.Request, body []byte) string { return string(body) }

func jsonPart(f retrysafe.Fields) func(*http.Request, []byte) string {
	return func(_ *http.Request, body []byte) string { return retrysafe.JSONPart(body, f) }
}

// shortHash tells lists of names apart.
func shortHash(names ...string) string {
	sum := sha256.Sum256([]byte(retrysafe.Scope(names...)))
	return hex.EncodeToString(sum[:6])
}

// fingerprinter makes the fingerprints of one Middleware.
type fingerprinter struct {
	*retrysafe.Fingerprinter
	ofBody  func(*http.Request, []byte) string // nil: nothing is compared
	raw     bool
	streams bool
	headers []string
	secret  []byte // for checks; nil: there is none

	secretName [4]byte
}

func newFingerprinter(o Options) *fingerprinter {
	method := o.Fingerprint
	if method.name == "none" {
		return &fingerprinter{streams: method.streams}
	}
	f := &fingerprinter{ofBody: method.ofBody, raw: method.name == "raw1"}
	copy(f.secretName[:], "none")
	if len(o.Secret) > 0 {
		secret := sha256.Sum256(append([]byte("retrysafe checks\n"), o.Secret...))
		f.secret = secret[:]
		f.check(f.secretName[:], "name")
	}
	for _, name := range o.FingerprintHeaders {
		f.headers = append(f.headers, http.CanonicalHeaderKey(name))
	}
	slices.Sort(f.headers)
	f.headers = slices.Compact(f.headers)
	alg := method.name
	if len(f.headers) > 0 {
		alg += "-" + shortHash(f.headers...)
	}
	f.Fingerprinter = retrysafe.NewFingerprinter(alg, o.Secret)
	return f
}

// compares reports whether requests with the same key are compared.
func (f *fingerprinter) compares() bool { return f.ofBody != nil }

// compared is what counts of a request.
type compared struct {
	head [headLen]string
	body [sha256.Size]byte // digest of what the body counts as
}

// Where head has the method, what the request is about, and the fields that change its meaning.
const (
	methodPart, targetPart, headersPart, headLen = 1, 2, 4, 10
)

// compare returns what counts of a request with its whole body.
func (f *fingerprinter) compare(r *http.Request, body []byte) compared {
	if !f.raw {
		body = []byte(f.ofBody(r, body))
	}
	h := r.Header
	return compared{
		head: [...]string{
			"v1", r.Method, r.URL.EscapedPath(), r.URL.RawQuery, mediaType(first(h["Content-Type"])),
			joined(h["Content-Encoding"]), joined(h["Content-Range"]), joined(h["If-Match"]), joined(h["If-None-Match"]),
			f.chosenHeaders(h),
		},
		body: sha256.Sum256(body),
	}
}

// of returns the fingerprint of a request.
func (f *fingerprinter) of(c *compared) retrysafe.Fingerprint {
	var parts [headLen + 1]string
	copy(parts[:], c.head[:])
	parts[headLen] = string(c.body[:])
	return f.Sum(parts[:]...)
}

// chosenHeaders joins the headers that Options add.
func (f *fingerprinter) chosenHeaders(h http.Header) string {
	if len(f.headers) == 0 {
		return ""
	}
	values := make([]string, len(f.headers))
	for i, name := range f.headers {
		values[i] = joined(h[name])
	}
	return retrysafe.Scope(values...)
}

// mediaType returns a Content-Type in lower case, without parameters.
func mediaType(contentType string) string {
	kind, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(kind))
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// joined combines the lines of a field as HTTP does.
func joined(values []string) string {
	if len(values) <= 1 {
		return first(values)
	}
	return strings.Join(values, ", ")
}
