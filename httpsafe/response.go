package httpsafe

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/retrysafe/retrysafe"
)

// response is what a handler has written so far.
type response struct {
	*memory       // body, and the header as it was at WriteHeader
	status  int   // 0: nothing written
	length  int64 // the Content-Length that the handler has set; -1: none
	trailer bool  // there are trailer fields, known or announced
	omitted bool  // its body is not kept
}

// begin records the status and the header. Later changes of the header by the handler have no effect, as in net/http.
func (p *response) begin(status int, h http.Header) {
	p.status, p.length = status, -1
	for name, values := range h {
		switch {
		case name == "Content-Length":
			p.length = contentLength(values)
		case strings.HasPrefix(name, http.TrailerPrefix):
			p.trailer = true
		default:
			p.trailer = p.trailer || name == "Trailer"
			p.fields = append(p.fields, field{name: name, values: values})
		}
	}
	slices.SortFunc(p.fields, func(a, b field) int { return strings.Compare(a.name, b.name) })
}

func contentLength(values []string) int64 {
	if len(values) == 1 {
		if n, err := strconv.ParseInt(values[0], 10, 64); err == nil && n >= 0 {
			return n
		}
	}
	return -1
}

// end records what is known only after the handler has returned. sniffed is room for a value.
func (p *response) end(h http.Header, sniffed *[1]string) {
	if p.status == 0 {
		p.begin(http.StatusOK, h)
	}
	if p.length > int64(len(p.body)) && bodyAllowed(p.status) {
		p.omitted = true // the client gets an incomplete body, which must not be replayed
	}
	if !p.omitted && len(p.body) > 0 && !p.has("Content-Type") && !p.has("Content-Encoding") {
		sniffed[0] = http.DetectContentType(p.body)
		p.fields = append(p.fields, field{name: "Content-Type", values: sniffed[:]})
	}
	p.takeTrailers(h)
}

// takeTrailers records the trailer fields: those that a Trailer header announced, and those with http.TrailerPrefix.
func (p *response) takeTrailers(h http.Header) {
	for _, line := range p.get("Trailer") {
		for name := range strings.SplitSeq(line, ",") {
			name = http.CanonicalHeaderKey(strings.TrimSpace(name))
			if values := h[name]; len(values) > 0 {
				p.fields = append(p.fields, field{name: name, values: values, trailer: true})
			}
		}
	}
	for name, values := range h {
		if bare, ok := strings.CutPrefix(name, http.TrailerPrefix); ok {
			p.trailer = true
			p.fields = append(p.fields, field{name: bare, values: values, trailer: true})
		}
	}
}

func (p *response) has(name string) bool {
	return slices.ContainsFunc(p.fields, func(f field) bool { return !f.trailer && f.name == name })
}

func (p *response) get(name string) []string {
	for _, f := range p.fields {
		if !f.trailer && f.name == name {
			return f.values
		}
	}
	return nil
}

// result returns what is stored of the response. Its body may be a copy, whose memory account grants.
func (p *response) result(c *config, r *http.Request, k *checks, a *account) retrysafe.Result {
	stored := c.Profile.storedOf(p, c.policy.MaxResult, a)
	connection := p.get("Connection")
	p.meta = append(p.meta[:0], metaVersion...)
	for _, f := range p.fields {
		switch {
		case stored.leavesOut(f.name):
		case f.trailer && isFieldName(f.name) && c.fields.stores(f.name, connection):
			p.meta = appendMetaField(p.meta, trailerMark, f.name, f.values)
		case !f.trailer && c.fields.stores(f.name, connection):
			p.meta = appendMetaField(p.meta, 0, f.name, f.values)
		}
	}
	p.meta = p.appendAbout(p.meta, r)
	p.meta = append(append(append(p.meta, "@"+aboutChecks+": "...), k[:]...), '\n')
	return retrysafe.Result{
		Failed: p.status >= 400, Code: p.status, Meta: p.meta, Body: stored.body, Omitted: stored.omitted,
	}
}

// appendAbout records the names by which logs and traces know the request that ran.
func (p *response) appendAbout(b []byte, r *http.Request) []byte {
	for _, candidate := range [...][]string{
		p.get("X-Request-Id"), p.get("Request-Id"), r.Header["X-Request-Id"], r.Header["Request-Id"],
	} {
		if len(candidate) > 0 {
			b = appendMetaField(b, aboutMark, aboutRequestID, candidate[:1])
			break
		}
	}
	if trace := r.Header["Traceparent"]; len(trace) > 0 {
		b = appendMetaField(b, aboutMark, aboutTraceparent, trace[:1])
	}
	return b
}

// restore makes h what it was when the response began.
func (p *response) restore(h http.Header) {
	for name := range h {
		if !p.has(name) && !strings.HasPrefix(name, http.TrailerPrefix) {
			delete(h, name)
		}
	}
	for _, f := range p.fields {
		if !f.trailer {
			h[f.name] = f.values
		}
	}
}

// setTrailers gives the trailer fields to net/http. Call it after the body was written.
func (p *response) setTrailers(h http.Header) {
	for _, f := range p.fields {
		if f.trailer && len(h[http.TrailerPrefix+f.name]) == 0 {
			h[f.name] = f.values
		}
	}
}

// bodyAllowed reports whether a response with this status has a body.
func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}
