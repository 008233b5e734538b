package target

import (
	"bufio"
	"compress/gzip"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// Faults of what is on the wire.
const (
	TwoFramings Fault = "two framings"   // a replay has a Content-Length and is chunked
	LengthWrong Fault = "a wrong length" // a replay goes on behind its end
	// an answer before the body, which is read as the next request
	TakesBody    Fault = "a body is taken for a request"
	ReadsFirst   Fault = "the body is read first"             // a malformed key is seen when the whole body has come
	FramingCount Fault = "framing counts"                     // the same bytes in chunks are another request
	CodingCounts Fault = "the accepted coding counts"         // another Accept-Encoding is another request
	EarlyTwice   Fault = "early data has no key"              // a request in early data runs without its key
	NoLabel      Fault = "compressed answers have no label"   // Content-Encoding is left out
	NoVary       Fault = "compressed answers do not vary"     // Vary is left out
	Precondition Fault = "preconditions before keys"          // a retry's If-Match is looked at before its key
	GetRecorded  Fault = "GET is answered from the record"    // keys work on GET too
	RedirectKept Fault = "a redirect takes the key"           // a 307 is saved as the answer
	RedirectRuns Fault = "a redirect has run already"         // what redirects has done the work as well
	PutAndDelete Fault = "keys on PUT and DELETE"             // no fault: what some profiles ask for
	KeysRequired Fault = "keys are required"                  // no fault: a request without one is refused
	RefusesLate  Fault = "keys are required after the work"   // a request without a key is refused when it has run
	RefusesBare  Fault = "keys are required, nothing is said" // a refusal that explains nothing
	PayloadKeys  Fault = "bodies are keys"                    // a request without a key gets one made of its body
	KeysEchoed   Fault = "keys are echoed"                    // no fault
)

// takesKeys reports whether keys mean something with that method.
func (a *API) takesKeys(method string) bool {
	switch method {
	case http.MethodPost, http.MethodPatch:
		return true
	case http.MethodPut, http.MethodDelete:
		return a.has(PutAndDelete)
	case http.MethodGet:
		return a.has(GetRecorded)
	}
	return false
}

// speak writes bytes to the client, past net/http, and listens until it hangs up, unless they say that this is the end.
func (a *API) speak(w http.ResponseWriter, text string) {
	conn, both, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	_, _ = both.WriteString(text)
	_ = both.Flush()
	if !strings.Contains(text, "Connection: close") {
		_, _ = io.Copy(io.Discard, both)
	}
}

// endEarly answers before the body has come, and takes the body for the next request.
func (a *API) endEarly(w http.ResponseWriter, rec *record) {
	conn, both, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	_, _ = both.WriteString("HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nIdempotent-Replayed: " +
		"true\r\nContent-Length: " +
		itoa(len(rec.body)) + "\r\n\r\n" + string(rec.body))
	_ = both.Flush()
	if _, err := http.ReadRequest(bufio.NewReader(both)); err != nil {
		_, _ = both.WriteString("HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		_ = both.Flush()
	}
	_, _ = io.Copy(io.Discard, both)
}

// newGzip returns a writer that compresses.
func newGzip(w io.Writer) *gzip.Writer { return gzip.NewWriter(w) }

// itoa formats a number.
func itoa(n int) string { return strconv.Itoa(n) }

// inHex formats a number in hexadecimal, as chunks have it.
func inHex(n int) string { return strconv.FormatInt(int64(n), 16) }
