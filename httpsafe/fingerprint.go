package httpsafe

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/fingerprint"
)

// FingerprintMethod chooses what two requests with the same key are compared by. Method, method override, host, path
// and query are always compared. Media type, Content-Encoding, Content-Range, If-Match and If-None-Match are compared
// too, unless the method is [FingerprintNone] or [FingerprintMethod.WithoutHeaders].
//
// The method override is the content of X-HTTP-Method-Override, X-HTTP-Method and X-Method-Override. Of the host only
// the name is compared, without the port, and IP addresses are not compared at all, so that a retry may go to another
// address of the same service; with [Options.AnyHost] no host is compared. If a gateway moves the host that clients use
// into another header, name that header in [Options.FingerprintHeaders].
type FingerprintMethod struct {
	name    string                                    // of the algorithm
	ofBody  func(r *http.Request, body []byte) string // nil: only the operation is compared, not its input
	summary string
	streams bool // the handler reads the body while it arrives
	bare    bool // no headers are compared
	fields  *fingerprint.Fields
	err     error
}

// Compares reports whether two requests whose JSON bodies differ in the member at a JSON pointer, and nowhere else, are
// different requests. Of a [FingerprintFunc] it is not known, and Compares returns false.
func (f FingerprintMethod) Compares(pointer string) bool {
	within := func(outer string) bool { return pointer == outer || strings.HasPrefix(pointer, outer+"/") }
	switch {
	case f.ofBody == nil, strings.HasPrefix(f.name, "custom"):
		return false
	case f.fields == nil, len(f.fields.Include)+len(f.fields.Exclude) == 0:
		return true
	case len(f.fields.Exclude) > 0:
		return !slices.ContainsFunc(f.fields.Exclude, within)
	}
	return slices.ContainsFunc(f.fields.Include, func(p string) bool { return within(p) || strings.HasPrefix(p, pointer+"/") })
}

func (f FingerprintMethod) isZero() bool { return f.name == "" && f.err == nil }

// String describes the method for people.
func (f FingerprintMethod) String() string { return f.summary }

// Fields returns which fields of JSON bodies are compared, and how. It returns false for a method that does not look at
// fields.
func (f FingerprintMethod) Fields() (fingerprint.Fields, bool) {
	if f.fields == nil {
		return fingerprint.Fields{}, false
	}
	return *f.fields, true
}

// FingerprintRaw compares bodies byte for byte.
func FingerprintRaw() FingerprintMethod {
	return FingerprintMethod{name: "raw2", ofBody: rawBody, summary: "raw bytes"}
}

// FingerprintJSON compares JSON bodies without regard to white space and the order of members; numbers are compared
// as they are written. Bodies that are not JSON are compared byte for byte.
func FingerprintJSON() FingerprintMethod {
	return FingerprintFields(fingerprint.Fields{})
}

// FingerprintFields compares chosen fields of JSON bodies, or all of them, with numbers compared as f.Numbers says.
// Bodies that are not JSON are compared byte for byte.
func FingerprintFields(f fingerprint.Fields) FingerprintMethod {
	f.Include, f.Exclude = slices.Clone(f.Include), slices.Clone(f.Exclude)
	name, summary := "fields2-"+shortHash(f.Include...), "JSON fields "+strings.Join(f.Include, ", ")
	switch {
	case len(f.Exclude) > 0:
		name, summary = "but2-"+shortHash(f.Exclude...), "JSON without "+strings.Join(f.Exclude, ", ")
	case len(f.Include) == 0:
		name, summary = "json2", "canonical JSON"
	}
	switch f.Numbers {
	case fingerprint.ByValue:
		name, summary = name+"-value", summary+", numbers by value"
	case fingerprint.AsDoubles:
		name, summary = name+"-double", summary+", numbers as doubles (RFC 8785)"
	}
	return FingerprintMethod{name: name, ofBody: jsonPart(f), summary: summary, fields: &f, err: f.Validate()}
}

// FingerprintFunc compares what f returns for a request; f must not change or keep body. name identifies f: change it
// whenever f changes, so that old records are not compared with new requests.
func FingerprintFunc(name string, f func(r *http.Request, body []byte) string) FingerprintMethod {
	method := FingerprintMethod{name: "custom2-" + shortHash(name), ofBody: f, summary: name}
	if name == "" || f == nil {
		method.err = errors.New("httpsafe: FingerprintFunc needs a name and a function")
	}
	return method
}

// WithoutHeaders returns f without the headers of the request: media type, Content-Encoding and the others that are
// otherwise compared. A method override, and what Options.FingerprintHeaders names, are compared nevertheless.
func (f FingerprintMethod) WithoutHeaders() FingerprintMethod {
	if !f.bare {
		f.bare, f.name, f.summary = true, f.name+"-bare", f.summary+", no headers"
	}
	return f
}

// FingerprintNone compares method, host, path and query, and no input: every request with the key gets the answer to
// the first. Bodies are then not read in advance, and may have any size. A client that sends half a body and stops
// keeps the key occupied until the handler gives up.
func FingerprintNone() FingerprintMethod {
	f := fingerprintIgnored()
	f.streams = true
	return f
}

// fingerprintIgnored compares no input either, but the key is claimed only after the whole body has arrived.
func fingerprintIgnored() FingerprintMethod {
	return FingerprintMethod{name: "none2", summary: "method and target, no body"}
}

// FingerprintVersionOf returns the [Options.FingerprintVersion] that a fingerprint was made with; "" if there was none.
func FingerprintVersionOf(f retrysafe.Fingerprint) string {
	algorithm, _, _ := strings.Cut(string(f), ":")
	_, version, _ := strings.Cut(algorithm, versionMark)
	version, _, _ = strings.Cut(version, ".") // behind which the secret is named
	return version
}

// anyHostMark is in the name of an algorithm that compares no hosts.
const anyHostMark = "-anyhost"

// versionMark precedes the version in the name of an algorithm.
const versionMark = "@"

func rawBody(_ *http.Request, body []byte) string { return string(body) }

func jsonPart(f fingerprint.Fields) func(*http.Request, []byte) string {
	return func(_ *http.Request, body []byte) string { return fingerprint.JSONPart(body, f) }
}

// shortHash identifies a list of names in the name of an algorithm.
func shortHash(names ...string) string {
	sum := sha256.Sum256([]byte(retrysafe.Scope(names...)))
	return hex.EncodeToString(sum[:6])
}

// fingerprinter computes the fingerprints of one Middleware.
type fingerprinter struct {
	*fingerprint.Algorithm
	ofBody  func(*http.Request, []byte) string // nil: only the operation is compared
	raw     bool
	anyHost bool
	streams bool
	bare    bool
	headers []string
	secret  []byte // for checks; nil: there is none

	secretName  [4]byte
	lastHeaders atomic.Pointer[headersCheck]
}

func newFingerprinter(o Options) *fingerprinter {
	method := o.Fingerprint
	f := &fingerprinter{
		ofBody: method.ofBody, raw: strings.HasPrefix(method.name, "raw2"), anyHost: o.AnyHost, streams: method.streams,
		bare: method.bare,
	}
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
	if o.AnyHost {
		alg += anyHostMark
	}
	if o.FingerprintVersion != "" {
		alg += versionMark + o.FingerprintVersion
	}
	f.Algorithm = fingerprint.New(alg, o.Secret)
	return f
}

// compared is what is compared of a request.
type compared struct {
	head [headLen]string
	body [sha256.Size]byte // digest of what the body counts as
	host string            // also where it is not compared
}

// Where head has the method, what the request is about, and the fields that change its meaning.
const (
	methodPart, overridePart, targetPart, headersPart, chosenPart, headLen = 1, 2, 3, 6, 11, 12
)

// compare collects what is compared of a request. body is its whole body; it may be nil if only the operation is
// compared.
func (f *fingerprinter) compare(c *compared, r *http.Request, body []byte) {
	c.head = [headLen]string{"v2", r.Method, "", "", targetOf(r), r.URL.RawQuery}
	if c.host = hostName(r.Host); !f.anyHost {
		c.head[targetPart] = c.host
	}
	for name, values := range r.Header { // one pass is cheaper than a lookup for each of these fields
		switch name {
		case "X-Http-Method-Override", "X-Http-Method", "X-Method-Override":
			c.head[overridePart] = methodOverride(r.Header)
		case "Content-Type":
			c.head[headersPart] = mediaType(first(values))
		case "Content-Encoding":
			c.head[headersPart+1] = joined(values)
		case "Content-Range":
			c.head[headersPart+2] += joined(values)
		case "Range": // the answer may be a part
			c.head[headersPart+2] += "range " + joined(values)
		case "If-Match":
			c.head[headersPart+3] = joined(values)
		case "If-None-Match":
			c.head[headersPart+4] = joined(values)
		}
	}
	c.head[chosenPart] = f.chosenHeaders(r.Header)
	if f.ofBody == nil || f.bare {
		clear(c.head[headersPart:chosenPart])
	}
	if f.ofBody == nil {
		return
	}
	if !f.raw {
		body = []byte(f.ofBody(r, body))
	}
	c.body = sha256.Sum256(body)
}

// methodOverride returns the headers by which some frameworks let a client replace the method of a POST. Requests
// that differ in them are different operations.
func methodOverride(h http.Header) string {
	for _, name := range [...]string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override"} {
		if len(h[name]) > 0 {
			return retrysafe.Scope(
				joined(h["X-Http-Method-Override"]), joined(h["X-Http-Method"]), joined(h["X-Method-Override"]))
		}
	}
	return ""
}

// hostName returns the name in a Host header, in lower case and without the port. It is empty for an IP address,
// because a retry that goes to another address of a service still means the same.
func hostName(host string) string {
	if strings.HasPrefix(host, "[") { // IPv6
		return ""
	}
	if i := strings.LastIndexByte(host, ':'); i >= 0 {
		host = host[:i]
	}
	host = strings.TrimSuffix(host, ".")
	if last := host[strings.LastIndexByte(host, '.')+1:]; last == "" || strings.Trim(last, "0123456789") == "" { // IPv4
		return ""
	}
	return strings.ToLower(host)
}

// of returns the fingerprint of a request.
func (f *fingerprinter) of(c *compared) retrysafe.Fingerprint {
	var parts [headLen + 1]string
	copy(parts[:], c.head[:])
	parts[headLen] = string(c.body[:])
	return f.Sum(parts[:]...)
}

// chosenHeaders joins the headers that Options.FingerprintHeaders adds.
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

// mediaType returns a Content-Type in lower case and without its parameters.
func mediaType(contentType string) string {
	kind, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(kind))
}

// first returns the first line of a field; "" if there is none.
func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// joined combines the lines of a field as HTTP does (RFC 9110, section 5.3).
func joined(values []string) string {
	if len(values) <= 1 {
		return first(values)
	}
	return strings.Join(values, ", ")
}
