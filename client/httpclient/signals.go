package httpclient

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe/client"
	"github.com/retrysafe/retrysafe/internal/httpsignals"
)

// Signals of the transport itself, beside those of httpsignals.
const (
	redirectsHere httpsignals.Set = httpsignals.Custom << iota // to the same origin
	mayRefresh                                                 // there may be a new credential
	notSent                                                    // nothing left the client
	noAnswer                                                   // no answer, or not all of it
	noCredential                                               // there is no credential to send with
	stillRuns                                                  // another attempt does; see runsElsewhere
)

// signal is a row of the table: what a reply that looks like this means.
type signal struct {
	name     string
	statuses []int           // any of these; a hundred, such as 200, is all of its class; none: whatever the status
	says     httpsignals.Set // one of these; 0: whatever it says
	action   client.Action
	effect   client.Effect
}

// The names of rows that the transport itself acts on.
const (
	redirectFollowed = "redirect-followed"
	unauthorized     = "unauthorized"
)

const all5xx = 599

// signals is the table, which docs/client.md explains. The first row that fits counts.
var signals = []signal{
	{"no-credential", nil, noCredential, client.Finish, client.DidNothing},
	{"not-sent", nil, notSent, client.Again, client.DidNothing},
	{"no-answer", nil, noAnswer, client.Again, client.MayHaveRun},
	{"outcome-resumes", nil, httpsignals.Resumes, client.Again, client.MayHaveRun},
	{"outcome-unknown", nil, httpsignals.Unknown, client.GiveUp, client.MayHaveRun},
	{"replayed-failure", []int{500, 502, 504}, httpsignals.Replayed, client.GiveUp, client.MayHaveRun},
	{"replayed-not-kept", nil, httpsignals.NotKept, client.NotKept, client.Answered},
	{"replayed", nil, httpsignals.Replayed, client.Finish, client.Answered},
	{client.InFlight, []int{http.StatusAccepted}, stillRuns, client.Again, client.MayHaveRun},
	{"success", []int{200}, 0, client.Finish, client.Answered},
	{redirectFollowed, []int{307, 308}, redirectsHere, client.AtOnce, client.DidNothing},
	{"redirect-not-followed", []int{307, 308}, 0, client.Finish, client.DidNothing},
	{"redirect", []int{300}, 0, client.Finish, client.Unproven},
	{"unprotected-failure", []int{all5xx}, httpsignals.Ignored, client.GiveUp, client.MayHaveRun},
	{"unprotected", nil, httpsignals.Ignored, client.Finish, client.Unproven},
	{unauthorized, []int{401}, mayRefresh, client.AtOnce, client.DidNothing},
	{"key-expired", nil, httpsignals.Expired, client.GiveUp, client.MayHaveRun},
	{"key-reused", nil, httpsignals.Reused, client.Finish, client.DidNothing},
	{client.InFlight, nil, httpsignals.InFlight, client.Again, client.MayHaveRun},
	{"refused", nil, httpsignals.Refused, client.Finish, client.DidNothing},
	{"told-to-retry", []int{409, all5xx}, httpsignals.Retry, client.Again, client.MayHaveRun},
	{"told-to-retry", nil, httpsignals.Retry, client.Again, client.DidNothing},
	{"told-to-stop", []int{all5xx}, httpsignals.Stop, client.GiveUp, client.MayHaveRun},
	{"told-to-stop", []int{429, 425, 408}, httpsignals.Stop, client.Finish, client.DidNothing},
	{
		"refused",
		[]int{401, 403, 405, 407, 411, 413, 414, 415, 417, 421, 426, 431, 501, 511},
		0, client.Finish,
		client.DidNothing,
	},
	{"try-later", []int{408, 425, 429}, 0, client.Again, client.DidNothing},
	{"server-error", []int{500}, 0, client.Again, client.MayHaveRun},
	{"gateway-error", []int{all5xx}, 0, client.Again, client.MayHaveRun},
	{"conflict", []int{http.StatusConflict}, 0, client.Finish, client.Unproven},
	{"answer", nil, 0, client.Finish, client.Unproven},
}

// maxHops is how many redirects of one intent are followed.
const maxHops = 10

// Send implements client.Exchange: it sends the request and finds the signal that the reply gives.
func (c *call) Send(ctx context.Context, e *client.Entry) client.Reply {
	c.reply = c.send(ctx, e)
	p, location := c.read()
	s := judge(p)
	r := client.Reply{
		Signal: client.Signal{Name: s.name, Action: s.action, Effect: s.effect},
		Status: p.status, Err: c.err, IsAnswer: c.response != nil, RetryAfter: p.RetryAfter,
		Retention: p.Retention,
	}
	c.refused = s.name == unauthorized
	c.refreshed = c.refreshed || c.refused
	if s.name == redirectFollowed {
		c.hops++
		c.redirect(location, e.Key)
	}
	if s.effect == client.Unproven {
		r.Last = !c.t.marks() || p.Set&(httpsignals.Stop|httpsignals.Ignored) != 0
	}
	if p.status == http.StatusInternalServerError && p.Set&httpsignals.Retry == 0 {
		limit := c.t.options.Profile.Retries500
		c.failures++
		r.Last = limit > 0 && c.failures > limit
	}
	return r
}

// marks reports whether the server marks its answers, so that a repeat shows whose answer an unmarked one was.
func (t *Transport) marks() bool {
	return t.options.Profile.Marker != "" || t.options.Profile.AcceptedHeader.Name != ""
}

// proof is what a reply shows, from which the table of signals judges.
type proof struct {
	httpsignals.Response
	status int // 0: no answer
}

// read returns what the last reply shows, and where to follow it to.
func (c *call) read() (p proof, location *url.URL) {
	if c.response == nil {
		return proof{Response: httpsignals.Response{Set: c.signalsOfError()}}, nil
	}
	p = proof{httpsignals.Read(c.response, c.start, c.t.options.Profile.Marker), c.response.StatusCode}
	switch p.status {
	case http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		if location = c.sameOrigin(); location != nil {
			p.Set |= redirectsHere
		}
	case http.StatusUnauthorized:
		if c.t.options.AuthorizeFunc != nil && !c.refreshed {
			p.Set |= mayRefresh
		}
	case http.StatusAccepted:
		if p.Set&httpsignals.InFlight != 0 && c.runsElsewhere() {
			p.Set |= stillRuns
		}
	}
	return p, location
}

// runsElsewhere reports whether a 202 says that another attempt runs: our middleware answers so, with the address of the
// status, where its options have InFlightStatus. It is the answer for a caller that has asked for it with Prefer. That
// of an inbox is an answer too: the server has the request, and delivers it.
func (c *call) runsElsewhere() bool {
	for _, preference := range c.header["Prefer"] {
		if strings.Contains(strings.ToLower(preference), "respond-async") {
			return false
		}
	}
	var document struct{ State string }
	return json.Unmarshal(c.start, &document) == nil && document.State == "pending"
}

// signalsOfError returns what a missing answer shows.
func (c *call) signalsOfError() httpsignals.Set {
	var authorize *authorizeError
	switch {
	case errors.As(c.err, &authorize):
		return noCredential
	case c.sent:
		return noAnswer
	}
	return notSent
}

// judge returns the first row that fits. What the server says of the effect takes precedence over the row.
func judge(p proof) signal {
	s := signals[slices.IndexFunc(signals, func(s signal) bool { return s.fits(p) })] // the last fits all
	if s.effect == client.MayHaveRun && p.Set&httpsignals.Nothing != 0 {
		s.effect = client.DidNothing
		if s.action == client.GiveUp {
			s.action = client.Finish
		}
	}
	if s.action == client.Finish && p.Set&httpsignals.Executed != 0 {
		s.effect = client.Answered
	}
	return s
}

func (s signal) fits(p proof) bool {
	if s.says != 0 && s.says&p.Set == 0 {
		return false
	}
	return len(s.statuses) == 0 || slices.ContainsFunc(s.statuses, func(status int) bool {
		switch status {
		case 200, 300:
			return p.status/100 == status/100
		case all5xx:
			return p.status/100 == 5
		}
		return p.status == status
	})
}

// sameOrigin returns where a 307 or 308 leads to, if that is where the request went.
func (c *call) sameOrigin() *url.URL {
	location := c.response.Header.Get("Location")
	to, err := c.url.Parse(location)
	if err != nil || location == "" || originOf(to) != c.origin() || c.hops >= maxHops {
		return nil
	}
	to.User, to.Fragment, to.RawFragment = c.url.User, "", ""
	return to
}

// redirect makes the call go to another URL of the same origin, with the same key.
func (c *call) redirect(to *url.URL, key string) {
	name := c.t.carrier.member.Query
	if name != "" && c.url.Query().Has(name) && !to.Query().Has(name) {
		putQuery(to, name, key)
	}
	c.url = to
}

// nameLocation makes the Location of a redirect that comes after others absolute: http.Client would take it as
// relative to where the first request went.
func (c *call) nameLocation() {
	location := c.response.Header.Get("Location")
	if c.hops == 0 || location == "" || c.response.StatusCode/100 != 3 {
		return
	}
	if to, err := c.url.Parse(location); err == nil {
		c.response.Header.Set("Location", to.String())
	}
}

// Answer implements client.Exchange.
func (c *call) Answer() (header map[string][]string, body []byte) {
	h := c.response.Header.Clone()
	for _, name := range c.t.carrier.aliases {
		h.Del(name)
	}
	return h, c.start[:min(len(c.start), httpsignals.MaxBody)]
}
