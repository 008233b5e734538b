package httpsafe

import (
	"net/http"
	"strings"

	"github.com/retrysafe/retrysafe"
)

// Result.Meta holds a response's header as text:
//
//	http/1                          the form's version
//	Content-Type: text/plain        a field, one line for each of its lines
//	Content-Type                    a field without lines: nothing is to be sent, or made up, under this name
//	>Checksum: 5f2a                 a trailer field
//	@request-id: 8f41               about the request that ran: request-id, traceparent, checks2
const metaVersion = "http/1\n"

const (
	trailerMark = '>'
	aboutMark   = '@'

	aboutRequestID   = "request-id"
	aboutTraceparent = "traceparent"
	aboutChecks      = "checks2"
)

// NewResult returns the Result that stands for an HTTP response, for a ReconcileFunc or for resolving a key by hand.
// Leave out of header what the middleware does not store (see [Profile.KeepHeaders]).
func NewResult(status int, header http.Header, body []byte) retrysafe.Result {
	meta := []byte(metaVersion)
	for name, values := range header {
		if isFieldName(name) && !isHopByHop(http.CanonicalHeaderKey(name)) {
			meta = appendMetaField(meta, 0, name, values)
		}
	}
	return retrysafe.Result{Failed: status >= 400, Code: status, Meta: meta, Body: body}
}

// HeaderOf returns the header of a Result that stands for an HTTP response, as a replay sends it; fields that are
// left out have no values. It returns false if the result was neither recorded by this package nor made by [NewResult].
func HeaderOf(r retrysafe.Result) (http.Header, bool) {
	if !strings.HasPrefix(string(r.Meta), metaVersion) {
		return nil, false
	}
	h := http.Header{}
	for lines := metaLines(string(r.Meta)); lines != ""; {
		var line metaLine
		line, lines = cutMetaLine(lines)
		switch {
		case line.mark != 0:
		case !line.hasValue:
			h[line.name] = nil
		default:
			h[line.name] = append(h[line.name], line.value)
		}
	}
	return h, true
}

// appendMetaField appends a field, behind a mark unless that is 0.
func appendMetaField(b []byte, mark byte, name string, values []string) []byte {
	for _, value := range values {
		b = append(appendMetaName(b, mark, name), ": "...)
		from := len(b)
		b = append(b, value...)
		for i := from; i < len(b); i++ {
			if b[i] == '\n' || b[i] == '\r' {
				b[i] = ' ' // as net/http does when it sends
			}
		}
		b = append(b, '\n')
	}
	if len(values) == 0 {
		b = append(appendMetaName(b, mark, name), '\n')
	}
	return b
}

func appendMetaName(b []byte, mark byte, name string) []byte {
	if mark != 0 {
		b = append(b, mark)
	}
	return append(b, name...)
}

// metaLine is one line of Result.Meta.
type metaLine struct {
	mark        byte // 0: a header field
	name, value string
	hasValue    bool
}

// metaLines returns the lines of a Meta that this package has written; "" if other code wrote it.
func metaLines(meta string) string {
	rest, ok := strings.CutPrefix(meta, metaVersion)
	if !ok {
		return ""
	}
	return rest
}

// cutMetaLine splits off the first line.
func cutMetaLine(lines string) (line metaLine, rest string) {
	text, rest, _ := strings.Cut(lines, "\n")
	if text != "" && (text[0] == trailerMark || text[0] == aboutMark) {
		line.mark, text = text[0], text[1:]
	}
	line.name, line.value, line.hasValue = strings.Cut(text, ": ")
	return line, rest
}

// about returns what a Meta records about the request that ran.
func about(meta, name string) string {
	for lines := metaLines(meta); lines != ""; {
		var line metaLine
		line, lines = cutMetaLine(lines)
		if line.mark == aboutMark && line.name == name {
			return line.value
		}
	}
	return ""
}
