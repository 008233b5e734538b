package httpclient

import (
	"net/http"
	"net/url"

	"github.com/retrysafe/retrysafe/internal/httpsignals"
)

// evidence is what a reply shows, from which the table of signals judges.
type evidence struct {
	httpsignals.Response
	status      int      // 0: no answer
	serverError bool     // a 500 that says nothing else
	location    *url.URL // where to follow to
}

// read returns what a reply shows.
func (c *call) read(p reply) evidence {
	if p.response == nil {
		return evidence{Response: httpsignals.Response{Set: signalsOfError(p)}}
	}
	e := evidence{
		Response: httpsignals.Read(p.response, p.start, c.t.options.Profile.Marker), status: p.response.StatusCode,
	}
	if e.status == http.StatusTemporaryRedirect || e.status == http.StatusPermanentRedirect {
		if e.location = c.sameOrigin(p.response); e.location != nil {
			e.Set |= redirectsHere
		}
	}
	if e.status == http.StatusUnauthorized && c.t.options.AuthorizeFunc != nil && !c.refreshed {
		e.Set |= mayRefresh
	}
	e.serverError = e.status == http.StatusInternalServerError && e.Set&httpsignals.Retry == 0
	return e
}

// signalsOfError returns what a missing answer shows.
func signalsOfError(p reply) httpsignals.Set {
	switch {
	case isAuthorizeError(p.err):
		return noCredential
	case p.sent:
		return noAnswer
	}
	return notSent
}
