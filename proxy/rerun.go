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
// with which key its request was sent, because UpstreamKey may have been turned on, off or renamed since, and the Guard
// may have another ChildSecret.

// version names how requests are sent. It becomes part of their fingerprints. An upstream that completes the keys needs
// to recognise nothing: it cannot commit what it did for an earlier attempt. But a request that was sent to an upstream
// which did not complete its key is another matter.
func (r Route) version(g *retrysafe.Guard) string {
	switch {
	case r.HTTP.CompletedElsewhere:
		return strings.TrimPrefix(r.HTTP.FingerprintVersion+completedUpstream, "-")
	case r.UpstreamKey == "":
		return r.HTTP.FingerprintVersion
	}
	header := sha256.Sum256([]byte(http.CanonicalHeaderKey(r.UpstreamKey)))
	version := fmt.Sprintf("%s%s%x", r.HTTP.FingerprintVersion, upstreamKeyMark, header[:4])
	if name := secretName(g); name != "" {
		version += secretMark + name
	}
	return strings.TrimPrefix(version, "-")
}

// What the version of requests with an UpstreamKey consists of.
const (
	upstreamKeyMark = "-upstream-key-" // before the name of the header
	secretMark      = "-secret-"       // before secretName
)

// secretName tells the ChildSecret of a Guard from others, and does not reveal it. It is empty if there is none. It is
// a child of a key that no request has.
func secretName(g *retrysafe.Guard) string {
	var none retrysafe.Key
	if child := g.ChildKey(none, "name of the secret"); child != none.Child("name of the secret") {
		return child[:16]
	}
	return ""
}

// completedUpstream ends the version of requests whose upstream completes the keys.
const completedUpstream = "-complete-upstream"

// IsCompletedUpstream reports whether a record's fingerprint was made by a route with HTTP.CompletedElsewhere. If such a
// record was abandoned, the upstream has not committed, and a retry runs the operation.
func IsCompletedUpstream(f retrysafe.Fingerprint) bool {
	return strings.HasSuffix("-"+httpsafe.FingerprintVersionOf(f), completedUpstream)
}

var errSentOtherwise = errors.New("proxy: the request is not sent again: the first one did not carry the key that " +
	"upstream_key, with upstream_key_secret, sends now, or the lease that complete: upstream does, so the API could run " +
	"it twice")

// UpstreamKeyOf returns the key that the upstream got with an abandoned attempt, if the route has an UpstreamKey. It is
// for a [retrysafe.ReconcileFunc], which has both arguments. The error says that the key is not known, because it was
// made with another ChildSecret than the Guard of a has. The function then returns the error, so that the outcome stays
// unknown: the upstream has nothing under the key that a would send.
func UpstreamKeyOf(a *retrysafe.Attempt, abandoned retrysafe.Record) (string, error) {
	if secret, ok := sentWith(abandoned); ok && secret != secretName(a.Control().Guard()) {
		return "", errAnotherSecret
	}
	return a.ChildKey(upstreamOperation), nil
}

// SentUpstreamKey returns the key that the upstream got with the request of a record, if the record says that it got one:
// it was made by a route with an UpstreamKey and without HTTP.CompletedElsewhere, and with the ChildSecret that g has, or
// both have none. Records of requests that were only observed say nothing of it.
func SentUpstreamKey(g *retrysafe.Guard, r retrysafe.Record) (key string, ok bool) {
	secret, ok := sentWith(r)
	if !ok || secret != secretName(g) || r.Key.ID == "" || httpsafe.IsObservedScope(r.Key.Scope) {
		return "", false
	}
	return g.ChildKey(r.Key, upstreamOperation), true
}

// sentWith returns the name of the secret of the key that the upstream got with the request of a record, and whether the
// record says that it got one.
func sentWith(r retrysafe.Record) (secret string, ok bool) {
	version := "-" + httpsafe.FingerprintVersionOf(r.Fingerprint)
	i := strings.LastIndex(version, upstreamKeyMark)
	if i < 0 {
		return "", false
	}
	_, secret, _ = strings.Cut(version[i:], secretMark)
	return secret, true
}

var errAnotherSecret = errors.New("proxy: the first request carried an upstream_key that was made with another " +
	"upstream_key_secret, and is not known any more")

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
