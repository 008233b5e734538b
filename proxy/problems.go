package proxy

import (
	"net/http"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe/httpsafe"
)

// Situations that only a proxy can be in.
const (
	// UpstreamUnreachable: nothing was sent; nothing happened.
	UpstreamUnreachable httpsafe.Slug = "upstream-unreachable"
	// UpstreamFailed: the request was sent, and no whole answer came back.
	UpstreamFailed httpsafe.Slug = "upstream-failed"
	// UpstreamTimeout: the request was sent, and no answer came in time.
	UpstreamTimeout httpsafe.Slug = "upstream-timeout"
	// Overloaded: the proxy has too much to do; nothing was sent.
	Overloaded httpsafe.Slug = "overloaded"
	// AuthUnavailable: Options.AuthURL did not say whether the caller may call; nothing was sent.
	AuthUnavailable httpsafe.Slug = "auth-unavailable"
	// MethodRefused: the proxy does not do what the method asks for.
	MethodRefused httpsafe.Slug = "method-refused"
)

// Problems returns the situations that only a proxy can be in, for the policy page.
func Problems() []httpsafe.Problem {
	return []httpsafe.Problem{
		{Slug: UpstreamUnreachable, Status: 503, Title: "The upstream cannot be reached", Detail: "Nothing was sent to it. Retry with the same key.", Retryable: true, Executed: "no", RetryAfter: time.Second},
		{Slug: UpstreamFailed, Status: 502, Title: "The upstream gave no answer", Detail: "The request was sent, but the connection ended before the answer was complete. Whether the operation ran is unknown.", Executed: "unknown"},
		{Slug: UpstreamTimeout, Status: 504, Title: "The upstream did not answer in time", Detail: "The request was sent, but no answer came in time. Whether the operation ran, or still runs, is unknown.", Executed: "unknown"},
		{Slug: Overloaded, Status: 503, Title: "Too many requests at once", Detail: "Nothing was sent to the upstream. Retry with the same key.", Retryable: true, Executed: "no", RetryAfter: time.Second},
		{Slug: AuthUnavailable, Status: 503, Title: "The caller's credentials could not be checked", Detail: "Nothing was sent to the upstream. Retry with the same key.", Retryable: true, Executed: "no", RetryAfter: time.Second},
		{Slug: MethodRefused, Status: 405, Title: "This proxy opens no tunnels", Detail: "CONNECT is not supported.", Executed: "no"},
	}
}

// problemWriter answers with problems in the form that a route's profile has.
type problemWriter struct {
	policyURL string
	profile   httpsafe.Profile
}

func (p problemWriter) write(w http.ResponseWriter, slug httpsafe.Slug) {
	p.writeProblem(w, problem(slug))
}

func (p problemWriter) writeProblem(w http.ResponseWriter, what httpsafe.Problem) {
	httpsafe.WriteProblem(w, p.profile, p.policyURL, what)
}

// problem returns the problem for a slug.
func problem(slug httpsafe.Slug) httpsafe.Problem {
	all := Problems()
	return all[slices.IndexFunc(all, func(p httpsafe.Problem) bool { return p.Slug == slug })]
}

// slowBody is the problem of a request without a key whose body did not come in time: the upstream has got a part of it.
func slowBody() httpsafe.Problem {
	return httpsafe.Problem{
		Slug: httpsafe.BodyTimeout, Status: http.StatusRequestTimeout, Title: "The request body did not arrive in time",
		Detail: "The body came too slowly. The upstream got a part of it.", Executed: "unknown",
	}
}
