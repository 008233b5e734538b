package httpsafe

import (
	"errors"
	"net/http"
)

// VerifyFunc says whether a request may be served, by its header and the bytes of its body. Package signature has those
// of webhooks. It is called before anything else: before a key is looked for or claimed and before an answer is
// replayed. It must not change or keep body, must not read r.Body, and must be safe for concurrent use.
//
// Its error refuses the request. A *[SignatureError] tells the sender what is wrong, as 401 with the problem
// [SignatureInvalid]. An error that is an http.Handler answers by itself, for example with 503 while the secrets cannot be
// loaded. Any other error is 401 too, and the sender does not see its text.
type VerifyFunc func(r *http.Request, body []byte) error

// SignatureError says why a request was not verified.
type SignatureError struct {
	// Header is the name of the header field that is missing, malformed or wrong; empty if it is none.
	Header string
	// Detail is for the sender, in whole sentences: what is wrong, and what to do. It holds neither a secret nor the
	// signature that would have been right.
	Detail string
}

// Error returns the detail.
func (e *SignatureError) Error() string { return "httpsafe: the request is not verified: " + e.Detail }

// isRefusedUnverified asks Options.VerifyFunc, and reports whether it has refused the request, which is then answered.
func (x *exchange) isRefusedUnverified() bool {
	if x.m.VerifyFunc == nil {
		return false
	}
	if p := x.spool(); p != nil {
		x.writeProblem(*p)
		return true
	}
	err := x.m.VerifyFunc(x.r, x.bodyBytes())
	var answer http.Handler
	switch {
	case err == nil:
		return false
	case errors.As(err, &answer):
		answer.ServeHTTP(x.w, x.r)
	default:
		x.writeProblem(signatureInvalid(err))
	}
	return true
}

// signatureInvalid returns the problem of a request that is not verified.
func signatureInvalid(err error) Problem {
	p := rejection(SignatureInvalid)
	if e := new(SignatureError); errors.As(err, &e) {
		p.Detail = e.Detail + " Nothing was run."
		if e.Header != "" {
			p = p.with("header", e.Header)
		}
	}
	return p
}

// needsBody reports whether the body is read before the key is known.
func (c *config) needsBody() bool {
	return c.VerifyFunc != nil || c.KeySource != nil && c.KeySource.NeedsBody()
}
