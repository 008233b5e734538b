package httpclient_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/client"
	"github.com/retrysafe/retrysafe/client/httpclient"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/proxy"
)

func isOutcomeUnknown(p httpsafe.Problem) bool { return p.Slug == httpsafe.OutcomeUnknown }

// The client understands the refusals of the middleware and the proxy in every profile's format: it retries only if
// that helps, and it reports an unknown outcome only if it is unknown whether the operation ran. Seen to fail with
// byLink taken out (stripe: upstream-failed was sent four times, overloaded ended as an unknown outcome), with
// key-expired below key-reused (stripe: returned as an error in the program), with Reused left in place by readBody,
// and with byLink asked by byHeader (stripe: no retry where the server goes on with an abandoned key).
func TestTheClientUnderstandsEveryProblem(t *testing.T) {
	for _, profile := range httpsafe.Profiles() {
		problems := httpsafe.Options{}.Rules("", retrysafe.Policy{}, proxy.Problems()...).Problems
		if i := slices.IndexFunc(problems, isOutcomeUnknown); profile.RetryHeader != "" || profile.Refusal.Body == "" {
			resumes := problems[i] // under Rerun and Reconcile
			resumes.Retryable = true
			problems = append(problems, resumes)
		}
		for _, problem := range problems {
			switch problem.Slug {
			case httpsafe.KeyUnknown: // answers a GET of the key's status
				continue
			case httpsafe.RequestInFlight:
				problem.RetryAfter = time.Second // as the middleware sets it
			}
			p := play(t, httpclient.Options{Profile: profile.Profile}, nil, func(*http.Request) (*http.Response, error) {
				w := httptest.NewRecorder()
				httpsafe.Options{Profile: profile}.WriteProblem(w, problem)
				return w.Result(), nil
			})
			unknown, again := errors.Is(p.err, client.ErrOutcomeUnknown), len(p.sent) > 1
			if p.err != nil && !unknown || unknown != (problem.Executed == "unknown") || again != problem.Retryable {
				t.Errorf("%s, %s: signal %s, sent %d times, status %d, error %v", profile.Name, problem.Slug,
					p.seen[0].Signal, len(p.sent), p.status, p.err)
			}
		}
	}
}
