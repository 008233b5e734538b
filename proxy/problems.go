package proxy

import (
	"net/http"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe/httpsafe"
)

// Situations that only a proxy can be in.
const (
	// UpstreamUnreachable: the request was not sent, so nothing happened.
	UpstreamUnreachable httpsafe.Slug = "upstream-unreachable"
	// UpstreamFailed: the request was sent, and no complete answer came back.
	UpstreamFailed httpsafe.Slug = "upstream-failed"
	// UpstreamTimeout: the request was sent, and no answer came in time.
	UpstreamTimeout httpsafe.Slug = "upstream-timeout"
	// UpstreamFenced: the request was sent, and no complete answer came back; the upstream, which completes the key in its
	// own transaction, has not done so and cannot do so any more. So nothing happened.
	UpstreamFenced httpsafe.Slug = "upstream-fenced"
	// Overloaded: the proxy has reached its limit of requests; the request was not sent.
	Overloaded httpsafe.Slug = "overloaded"
	// AuthUnavailable: Options.AuthURL did not say whether the caller may call, or the keys that verify the caller's token
	// cannot be fetched; the request was not sent.
	AuthUnavailable httpsafe.Slug = "auth-unavailable"
	// MethodRefused: the proxy does not support the method.
	MethodRefused httpsafe.Slug = "method-refused"
	// TargetRefused: the request target has no path, so that no route can be found.
	TargetRefused httpsafe.Slug = "target-refused"
)

// problems are the texts of the situations above. A title is constant; a detail names the next action.
var problems = []httpsafe.Problem{
	{
		Slug: UpstreamUnreachable, Status: http.StatusServiceUnavailable, Title: "The upstream cannot be reached",
		Detail:    "The request was not sent to the upstream. Retry with the same key.",
		Retryable: true, Executed: "no", RetryAfter: time.Second,
	},
	{
		Slug: UpstreamFailed, Status: http.StatusBadGateway, Title: "The upstream did not answer",
		Detail: "The request was sent, but the connection ended before the answer was complete. " +
			"Whether the operation ran is unknown.",
		Executed: "unknown",
	},
	{
		Slug: UpstreamTimeout, Status: http.StatusGatewayTimeout, Title: "The upstream did not answer in time",
		Detail: "The request was sent, but no answer came in time. " +
			"Whether the operation ran, or is still running, is unknown.",
		Executed: "unknown",
	},
	{
		Slug: UpstreamFenced, Status: http.StatusServiceUnavailable,
		Title: "The upstream did not answer, and nothing happened",
		Detail: "The request was sent, but no complete answer came back. The operation was not executed, and what the " +
			"upstream still does for this request is undone. Retry with the same key.",
		Retryable: true, Executed: "no", RetryAfter: time.Second,
	},
	{
		Slug: Overloaded, Status: http.StatusServiceUnavailable, Title: "Too many requests at once",
		Detail: "This request was not sent to the upstream. An earlier one with the same key may have been: retry with that " +
			"key, not with a new one.",
		Retryable: true, Executed: "no", RetryAfter: time.Second,
	},
	{
		Slug: AuthUnavailable, Status: http.StatusServiceUnavailable, Title: "The credentials could not be checked",
		Detail: "This request was not sent to the upstream. An earlier one with the same key may have been: retry with that " +
			"key, not with a new one.",
		Retryable: true, Executed: "no", RetryAfter: time.Second,
	},
	{
		Slug: MethodRefused, Status: http.StatusMethodNotAllowed, Title: "CONNECT is not supported",
		Detail: "This proxy opens no tunnels to other hosts.", Executed: "no",
	},
	{
		Slug: TargetRefused, Status: http.StatusBadRequest, Title: "The request target is not a path",
		Detail:   "Send a path that begins with a slash, such as /payments. The request was not sent to the upstream.",
		Executed: "no",
	},
}

// Problems returns the situations that only a proxy can be in, for the policy page.
func Problems() []httpsafe.Problem { return slices.Clone(problems) }

// problem returns the problem for a slug.
func problem(slug httpsafe.Slug) httpsafe.Problem {
	return problems[slices.IndexFunc(problems, func(p httpsafe.Problem) bool { return p.Slug == slug })]
}

// writeProblem answers with the problem for a slug. Options take two kilobytes. If this were inlined, the functions
// that call it would have room for a copy on their stacks, also while their requests wait.
//
//go:noinline
func writeProblem(o *httpsafe.Options, w http.ResponseWriter, slug httpsafe.Slug) {
	o.WriteProblem(w, problem(slug))
}

// refuseDelivery is httpsafe.RefuseDelivery, likewise.
//
//go:noinline
func refuseDelivery(o *httpsafe.Options, w http.ResponseWriter, r *http.Request) {
	httpsafe.RefuseDelivery(w, r, *o)
}

// slowBody is the problem of a request without a key whose body was not sent in time. The upstream has received a
// part of it, so its effect is unknown.
func slowBody() httpsafe.Problem {
	return httpsafe.Problem{
		Slug: httpsafe.BodyTimeout, Status: http.StatusRequestTimeout, Title: "The request body did not arrive in time",
		Detail: "The body was sent too slowly. The upstream received a part of it.", Executed: "unknown",
	}
}
