package webhook

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"time"
)

// VerifyOptions are the options of Verify. VerifyOptions{} works.
type VerifyOptions struct {
	// Tolerance is the largest difference between webhook-timestamp and this machine's clock, in both directions.
	// Within it a captured webhook can be replayed, which deduplication by the key makes harmless. Default 5 minutes.
	Tolerance time.Duration
	// MaxBody is the maximum length of a body in bytes. Default 1 MiB.
	MaxBody int64
}

// Verify returns a middleware that lets only webhooks through that carry a signature by one of the secrets. The next
// handler may trust webhook-id and the body, which it can read as usual.
//
// Verify refuses other requests with a problem document (RFC 9457): 400 if a header is missing or malformed, 413 if
// the body is too long, 401 if no signature is valid or the timestamp is out of tolerance. Verify panics if no secret
// can verify.
func Verify(secrets Secrets, o VerifyOptions) func(http.Handler) http.Handler {
	if !secrets.CanVerify() {
		panic("webhook: Verify needs a shared secret or a public key")
	}
	o.Tolerance, o.MaxBody = cmp.Or(o.Tolerance, 5*time.Minute), cmp.Or(o.MaxBody, 1<<20)
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, fault := o.check(secrets, w, r)
			if fault != nil {
				fault.write(w)
				return
			}
			verified := r.WithContext(r.Context()) // an outer middleware keeps the original request
			verified.Body, verified.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			next.ServeHTTP(w, verified)
		})
	}
}

// Check is what Verify does, for a body that was read already. Its error is a *[CheckError].
func (all Secrets) Check(h http.Header, body []byte, tolerance time.Duration) error {
	parsed, err := parseRecent(h, tolerance)
	if err == nil {
		err = all.checkSignatures(parsed, body)
	}
	if err != nil { // not a *CheckError that is nil
		return err
	}
	return nil
}

// CanVerify reports whether one of the secrets is a shared secret or a public key.
func (all Secrets) CanVerify() bool {
	return slices.ContainsFunc(all, func(s Secret) bool { return s.shared != nil || s.public != nil })
}

// CheckError says why a webhook is refused.
type CheckError struct {
	// Header is the name of the header that is missing, malformed or wrong.
	Header string
	// Detail is for the sender. It does not show the signature that would have been right.
	Detail string

	malformed bool
}

// Error returns the detail.
func (e *CheckError) Error() string { return "webhook: " + e.Detail }

// problem returns the refusal of a middleware.
func (e *CheckError) problem() *problem {
	if e.malformed {
		return malformed(e.Detail)
	}
	return unauthorized(e.Detail)
}

// parseRecent reads the headers of a webhook whose timestamp is within the tolerance.
func parseRecent(h http.Header, tolerance time.Duration) (headers, *CheckError) {
	parsed, err := parseHeaders(h)
	if err != nil {
		return parsed, err
	}
	if d := time.Since(parsed.at); d > tolerance || d < -tolerance {
		return parsed, &CheckError{HeaderTimestamp, HeaderTimestamp + " is too far from this server's clock.", false}
	}
	return parsed, nil
}

func (all Secrets) checkSignatures(h headers, body []byte) *CheckError {
	if !all.verify(signed(h.id, h.timestamp, body), h.signatures) {
		return &CheckError{HeaderSignature, "No signature was made with a secret of this receiver.", false}
	}
	return nil
}

func (o VerifyOptions) check(secrets Secrets, w http.ResponseWriter, r *http.Request) ([]byte, *problem) {
	h, fault := parseRecent(r.Header, o.Tolerance)
	if fault != nil {
		return nil, fault.problem()
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, o.MaxBody))
	if err != nil {
		var tooLong *http.MaxBytesError
		if errors.As(err, &tooLong) {
			return nil, &problem{http.StatusRequestEntityTooLarge, "The body is too long.", ""}
		}
		return nil, malformed("The body could not be read.")
	}
	if fault := secrets.checkSignatures(h, body); fault != nil {
		return nil, fault.problem()
	}
	return body, nil
}

// problem is a refusal, sent as a problem document.
type problem struct {
	status int
	title  string
	detail string
}

func malformed(detail string) *problem {
	return &problem{http.StatusBadRequest, "The request is not a valid webhook.", detail}
}

func unauthorized(detail string) *problem {
	return &problem{http.StatusUnauthorized, "The webhook could not be verified.", detail}
}

func (p *problem) write(w http.ResponseWriter) {
	body, _ := json.Marshal(struct { // strings cannot fail
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail,omitempty"`
	}{p.title, p.status, p.detail})
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	if p.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Webhook-Signature")
	}
	w.WriteHeader(p.status)
	w.Write(body)
}
