package httpsafe

import (
	"bytes"
	"net/http"
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/fingerprint"
)

// storedBody is what is stored of the body of a response.
type storedBody struct {
	body    []byte
	omitted bool
	hides   bool // it is not the whole body
	decoded bool // the body of the response is compressed, and this one is not
}

// leavesOut reports whether a field of the response must not be stored with the body.
func (s storedBody) leavesOut(name string) bool {
	return s.hides && revealsBody(name) || s.decoded && strings.EqualFold(name, "Content-Encoding")
}

// storedOf returns what is stored of the body of a response, which stays as it is. If it is not certain that the values
// at Redact are found, nothing is stored: a value that is left would stay in the store and its backups, and a replay
// without a body does no such harm.
func (p Profile) storedOf(r *response, limit int, a *account) storedBody {
	none := storedBody{omitted: true, hides: true}
	switch {
	case p.DropBody:
		return none
	case r.omitted:
		return storedBody{omitted: true, hides: len(p.Redact) > 0}
	case len(p.Redact) == 0 || len(r.body) == 0:
		return storedBody{body: r.body}
	}
	plain, decoded, ok := r.plain(limit, a)
	if !ok || !a.takeCopy(len(plain)) {
		return none
	}
	body, err := fingerprint.RedactJSON(plain, p.Redact)
	switch {
	case err != nil:
		return none
	case bytes.Equal(body, plain):
		return storedBody{body: r.body}
	}
	return storedBody{body: body, hides: true, decoded: decoded}
}

// plain returns the body without its coding. ok is false for a part of a body, which could be JSON by itself, and for a
// coding that is not gzip alone or decodes to more than limit bytes.
func (r *response) plain(limit int, a *account) (body []byte, decoded, ok bool) {
	var codings []string
	for _, f := range r.fields {
		switch {
		case f.trailer:
		case strings.EqualFold(f.name, "Content-Range"):
			return nil, false, false
		case strings.EqualFold(f.name, "Content-Encoding"):
			codings = append(codings, f.values...)
		}
	}
	switch {
	case r.status == http.StatusPartialContent:
		return nil, false, false
	case len(codings) == 0:
		return r.body, false, true
	case len(codings) > 1 || !isGzip(codings[0]):
		return nil, false, false
	}
	n, ok := gunzippedSize(r.body)
	if !ok || n > int64(limit) || !a.takeCopy(int(n)) {
		return nil, false, false
	}
	body = gunzip(r.body, n)
	return body, true, len(body) > 0
}

// Redacted returns a Result that [NewResult] has made as the middleware would store it with this profile: without the
// values at Redact, or without its body if that is not certain or DropBody is set. For a ReconcileFunc, whose Result is
// stored as it is.
func (p Profile) Redacted(result retrysafe.Result) retrysafe.Result {
	header, ok := HeaderOf(result)
	if !ok || result.Omitted {
		return result
	}
	r := response{memory: &memory{body: result.Body}}
	r.begin(result.Code, header)
	stored := p.storedOf(&r, maxGunzipped, &account{})
	for name := range header {
		if stored.leavesOut(name) {
			delete(header, name)
		}
	}
	redacted := NewResult(result.Code, header, stored.body)
	redacted.Failed, redacted.Omitted = result.Failed, stored.omitted
	return redacted
}
