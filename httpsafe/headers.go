package httpsafe

import (
	"net/http"
	"strings"
)

// fieldRules decides which fields of a response are stored.
type fieldRules struct {
	keep, drop map[string]bool // by canonical name; what the profile says
}

func newFieldRules(p Profile) *fieldRules {
	// The middleware sets these itself, and each retry gets its own key back.
	own := append(p.ownHeaders(), p.Headers()...)
	return &fieldRules{keep: canonicalSet(p.KeepHeaders), drop: canonicalSet(append(own, p.DropHeaders...))}
}

func canonicalSet(names []string) map[string]bool {
	set := map[string]bool{}
	for _, name := range names {
		set[http.CanonicalHeaderKey(name)] = true
	}
	return set
}

// stores reports whether a response field of this name is stored. nominated is the Connection header of the response.
func (f *fieldRules) stores(name string, nominated []string) bool {
	canonical := name
	if !isPlain(name) {
		if !isFieldName(name) {
			return false
		}
		canonical = http.CanonicalHeaderKey(name)
	}
	switch {
	case isHopByHop(canonical) || isNominated(canonical, nominated):
		return false
	case f.keep[canonical]:
		return true
	case f.drop[canonical]:
		return false
	}
	return !isPerResponse(canonical)
}

// isPlain reports whether a name is canonical and made of letters, digits and hyphens, as nearly all names are.
func isPlain(name string) bool {
	first := true // of a word
	for i := range len(name) {
		switch c := name[i]; {
		case c == '-', '0' <= c && c <= '9':
		case 'A' <= c && c <= 'Z' && first:
		case 'a' <= c && c <= 'z' && !first:
		default:
			return false
		}
		first = name[i] == '-'
	}
	return name != ""
}

// isHopByHop reports fields that belong to one connection, or that a server sets anew on each response, and those with
// which a lease is handed over. They are never stored.
func isHopByHop(name string) bool {
	switch name {
	case "Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Http2-Settings",
		"Proxy-Authenticate", "Proxy-Authentication-Info", "Proxy-Authorization",
		"Date", "Age", "Via", "Content-Length", "Warning", LeaseHeader, AttemptHeader:
		return true
	}
	return strings.HasPrefix(name, http.TrailerPrefix)
}

// isPerResponse reports fields that are true of one response, one browser or one moment only. They are not stored
// unless Profile.KeepHeaders names them.
func isPerResponse(name string) bool {
	switch name {
	case "Set-Cookie", "Clear-Site-Data", "Www-Authenticate", "Authentication-Info", "Dpop-Nonce", "Retry-After",
		"Server-Timing", "Traceparent", "Tracestate", "Traceresponse", "X-Request-Id", "Request-Id", "X-Correlation-Id",
		"Alt-Svc", "Nel", "Report-To", "Signature", "Signature-Input", "Server",
		"Idempotency-Status", "Idempotent-Replayed":
		return true
	}
	return strings.HasPrefix(name, "Ratelimit") || strings.HasPrefix(name, "X-Ratelimit-") ||
		strings.HasPrefix(name, "Access-Control-")
}

// isNominated reports whether a Connection header names the field as one of its connection.
func isNominated(name string, connection []string) bool {
	for _, line := range connection {
		for element := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(element), name) {
				return true
			}
		}
	}
	return false
}

// describesBody reports fields that make no sense without the body that they came with.
func describesBody(name string) bool {
	switch http.CanonicalHeaderKey(name) {
	case "Content-Type", "Content-Encoding", "Content-Digest", "Repr-Digest", "Digest", "Content-Md5":
		return true
	}
	return false
}

// revealsBody reports fields from which values of a body could be guessed, or that are wrong of another body: digests,
// entity tags, which often are digests, and signatures, which cover them.
func revealsBody(name string) bool {
	switch http.CanonicalHeaderKey(name) {
	case "Content-Digest", "Repr-Digest", "Digest", "Content-Md5", "Etag", "Signature", "Signature-Input":
		return true
	}
	return false
}

// field is a header or trailer field with its lines.
type field struct {
	name    string
	values  []string
	trailer bool
}
