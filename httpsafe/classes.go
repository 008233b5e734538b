package httpsafe

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/retrysafe/retrysafe"
)

// ClassFunc returns the class of a final status, 200 to 999: ClassStore, ClassRelease or ClassAmbiguous. It is not
// asked about 502 and 504, nor about 408 and 503 without Retry-After (see [Options.TrustUnavailable]). It judges only
// what the handler has answered. A response that was made up because the outcome is unknown (see Ambiguous) is never
// judged by its status, and a 4xx by which another layer says that it is working under the key is never kept.
type ClassFunc func(status int) retrysafe.Class

// Classes that a handler's response can have besides those that its status stands for.
const (
	// classUnsure: the outcome is unknown, and Options.Ambiguous may free the key: see Ambiguous.
	classUnsure retrysafe.Class = 100 + iota
	// classBusy: another layer's attempt is in flight; this one did nothing.
	classBusy
)

// ThreeClasses is the default: refusals that assert that nothing happened (401, 403, 407, 408, 421, 423, 425, 429,
// 503, 511) release the key, other server errors are ambiguous, everything else is stored. For 408 and 503 this holds
// with a Retry-After or with [Options.TrustUnavailable] only.
func ThreeClasses(status int) retrysafe.Class {
	switch {
	case assertsNothingHappened(status):
		return retrysafe.ClassRelease
	case status >= 500:
		return retrysafe.ClassAmbiguous
	}
	return retrysafe.ClassStore
}

// StoreAll stores every response, as the IETF draft says literally.
func StoreAll(int) retrysafe.Class { return retrysafe.ClassStore }

// StoreExecuted stores everything, also server errors, except refusals that assert that nothing happened, and 409.
func StoreExecuted(status int) retrysafe.Class {
	if assertsNothingHappened(status) || status == http.StatusConflict {
		return retrysafe.ClassRelease
	}
	return retrysafe.ClassStore
}

// StoreSuccesses stores 2xx and 3xx and releases the rest. A success after a POST is often answered with a redirect.
func StoreSuccesses(status int) retrysafe.Class {
	if status < 200 || status > 399 {
		return retrysafe.ClassRelease
	}
	return retrysafe.ClassStore
}

// StoreUnlessServerFailed stores everything below 500, except refusals that assert that nothing happened and 419, which
// some APIs answer when a session has ended. Server errors are released and run again.
func StoreUnlessServerFailed(status int) retrysafe.Class {
	if assertsNothingHappened(status) || status == 419 || status >= 500 {
		return retrysafe.ClassRelease
	}
	return retrysafe.ClassStore
}

// classes are the rules of this file by name, the default first.
var classes = []struct {
	name string
	rule ClassFunc
}{
	{"definite", ThreeClasses},
	{"all", StoreAll},
	{"executed", StoreExecuted},
	{"successes", StoreSuccesses},
	{"unless-server-failed", StoreUnlessServerFailed},
}

// ClassNames returns the names that ClassByName knows, that of the default first.
func ClassNames() []string {
	var names []string
	for _, c := range classes {
		names = append(names, c.name)
	}
	return names
}

// ClassByName returns the ClassFunc of that name, for files: definite is ThreeClasses, all is StoreAll, executed is
// StoreExecuted, successes is StoreSuccesses, and unless-server-failed is StoreUnlessServerFailed. The error for another
// name lists these.
func ClassByName(name string) (ClassFunc, error) {
	for _, c := range classes {
		if c.name == name {
			return c.rule, nil
		}
	}
	names := strings.Join(ClassNames(), ", ")
	return nil, fmt.Errorf("httpsafe: unknown class of statuses %q; supported: %s", name, names)
}

// statusClass returns the class of a status without its header. Statuses that also come from something around the work
// are ambiguous in every profile: http.TimeoutHandler answers 503 while its handler still runs, frameworks answer 408 or
// 504 then, and a gateway in front of a service answers 502 or 503 after the service got the request.
func (o Options) statusClass(status int) retrysafe.Class {
	switch status {
	case http.StatusServiceUnavailable, http.StatusRequestTimeout:
		if !o.TrustUnavailable {
			return retrysafe.ClassAmbiguous
		}
	case http.StatusBadGateway, http.StatusGatewayTimeout:
		return retrysafe.ClassAmbiguous
	}
	return o.Profile.Class(status)
}

// class returns the class of a response. A Retry-After shows that its author has decided about it, so that the status has
// the meaning of the profile.
func (o Options) class(p *response) retrysafe.Class {
	if p.status == http.StatusServiceUnavailable || p.status == http.StatusRequestTimeout {
		o.TrustUnavailable = o.TrustUnavailable || p.has("Retry-After")
	}
	return o.statusClass(p.status)
}

// assertsNothingHappened reports whether a server sends the status only if it has not started to process the request.
func assertsNothingHappened(status int) bool {
	switch status {
	case 401, 403, 407, 408, 421, 423, 425, 429, 503, 511:
		return true
	}
	return false
}
