package proxy

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
)

// A rerun is safe if the upstream recognises the second request by the key that it got with the first. So a record says
// with which key its request was sent, because UpstreamKey may have been turned on, off or renamed since.

// version names how requests are sent. It becomes part of their fingerprints. An upstream that completes the keys needs
// to recognise nothing: it cannot commit what it did for an earlier attempt. But a request that was sent to an upstream
// which did not complete its key is another matter.
func (r Route) version() string {
	switch {
	case r.HTTP.CompletedElsewhere:
		return strings.TrimPrefix(r.HTTP.FingerprintVersion+completedUpstream, "-")
	case r.UpstreamKey == "":
		return r.HTTP.FingerprintVersion
	}
	header := sha256.Sum256([]byte(http.CanonicalHeaderKey(r.UpstreamKey)))
	return strings.TrimPrefix(fmt.Sprintf("%s-upstream-key-%x", r.HTTP.FingerprintVersion, header[:4]), "-")
}

// completedUpstream ends the version of requests whose upstream completes the keys.
const completedUpstream = "-complete-upstream"

// IsCompletedUpstream reports whether a record's fingerprint was made by a route with HTTP.CompletedElsewhere. If such a
// record was abandoned, the upstream has not committed, and a retry runs the operation.
func IsCompletedUpstream(f retrysafe.Fingerprint) bool {
	return strings.HasSuffix("-"+httpsafe.FingerprintVersionOf(f), completedUpstream)
}

var errSentOtherwise = errors.New("proxy: the request is not sent again: the first one did not carry the key that " +
	"upstream_key sends now, or the lease that complete: upstream does, so the API could run it twice")

// rerunIfSentAlike runs an abandoned request again if it was first sent as it would be sent now. Otherwise its
// outcome stays unknown.
func rerunIfSentAlike(version string) retrysafe.AbandonedPolicy {
	policy := func(_ context.Context, _ *retrysafe.Attempt, abandoned retrysafe.Record) (*retrysafe.Result, error) {
		if httpsafe.FingerprintVersionOf(abandoned.Fingerprint) != version {
			return nil, errSentOtherwise
		}
		return nil, nil
	}
	return retrysafe.Reconcile(policy)
}
