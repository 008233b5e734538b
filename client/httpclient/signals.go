package httpclient

import (
	"github.com/retrysafe/retrysafe/internal/httpsignals"
	"net/http"
	"slices"
)

// action is what the client does about a signal.
type action uint8

const (
	finish  action = iota + 1 // it is the answer
	again                     // another attempt, after a wait
	follow                    // the same request to another URL of the origin
	refresh                   // the same request with a new credential
	giveUp                    // the outcome is unknown, and asking again will not tell
	notKept                   // it ran and has ended; its answer was not kept
)

// effect is what an attempt that ended so has done.
type effect uint8

const (
	answered   effect = iota + 1 // whatever the answer says
	didNothing                   // nothing, for certain
	mayHaveRun                   // unknown
)

// Signals of the transport itself, beside those of httpsignals.
const (
	redirectsHere httpsignals.Set = httpsignals.Custom << iota // to the same origin
	mayRefresh                                                 // there may be a new credential
	notSent                                                    // nothing left the client
	noAnswer                                                   // no answer, or not all of it
	noCredential                                               // there is no credential to send with
)

// signal is a row of the table: what a reply that looks like this means.
type signal struct {
	name     string
	statuses []int           // any of these; a hundred, such as 200, is all of its class; none: whatever the status
	says     httpsignals.Set // one of these; 0: whatever it says
	action   action
	effect   effect
}

const signalInFlight = "in-flight"

// signals returns the table, which docs/client.md explains. The first row that fits counts.
func signals() []signal {
	const all5xx = 599
	return []signal{
		{"no-credential", nil, noCredential, finish, didNothing},
		{"not-sent", nil, notSent, again, didNothing},
		{"no-answer", nil, noAnswer, again, mayHaveRun},
		{"outcome-resumes", nil, httpsignals.Resumes, again, mayHaveRun},
		{"outcome-unknown", nil, httpsignals.Unknown, giveUp, mayHaveRun},
		{"replayed-failure", []int{500, 502, 504}, httpsignals.Replayed, giveUp, mayHaveRun},
		{"replayed-not-kept", nil, httpsignals.NotKept, notKept, answered},
		{"replayed", nil, httpsignals.Replayed, finish, answered},
		{"success", []int{200}, 0, finish, answered},
		{"redirect-followed", []int{307, 308}, redirectsHere, follow, didNothing},
		{"redirect-not-followed", []int{307, 308}, 0, finish, didNothing},
		{"redirect", []int{300}, 0, finish, answered},
		{"unprotected-failure", []int{all5xx}, httpsignals.Ignored, giveUp, mayHaveRun},
		{"unprotected", nil, httpsignals.Ignored, finish, answered},
		{"unauthorized", []int{401}, mayRefresh, refresh, didNothing},
		{"key-expired", nil, httpsignals.Expired, giveUp, mayHaveRun},
		{"key-reused", nil, httpsignals.Reused, finish, didNothing},
		{signalInFlight, nil, httpsignals.InFlight, again, mayHaveRun},
		{"refused", nil, httpsignals.Refused, finish, didNothing},
		{"told-to-retry", []int{409, all5xx}, httpsignals.Retry, again, mayHaveRun},
		{"told-to-retry", nil, httpsignals.Retry, again, didNothing},
		{"told-to-stop", []int{all5xx}, httpsignals.Stop, giveUp, mayHaveRun},
		{"told-to-stop", []int{429, 425, 408}, httpsignals.Stop, finish, didNothing},
		{"refused", []int{401, 403, 405, 407, 411, 413, 414, 415, 417, 421, 426, 431, 501, 511}, 0, finish, didNothing},
		{"try-later", []int{408, 425, 429}, 0, again, didNothing},
		{"server-error", []int{500}, 0, again, mayHaveRun},
		{"gateway-error", []int{all5xx}, 0, again, mayHaveRun},
		{"conflict", []int{http.StatusConflict}, 0, finish, answered},
		{"answer", nil, 0, finish, answered},
	}
}

// judge returns the first row that fits, and what the server says of the effect above what the row says.
func (t *Transport) judge(e evidence) signal {
	i := slices.IndexFunc(t.signals, func(s signal) bool { return s.fits(e) })
	s := t.signals[i] // the last fits all
	if s.effect == mayHaveRun && e.Set&httpsignals.Nothing != 0 {
		s.effect = didNothing
		if s.action == giveUp {
			s.action = finish
		}
	}
	return s
}

func (s signal) fits(e evidence) bool {
	if s.says != 0 && s.says&e.Set == 0 {
		return false
	}
	return len(s.statuses) == 0 || slices.ContainsFunc(s.statuses, func(status int) bool {
		switch status {
		case 200, 300:
			return e.status/100 == status/100
		case 599:
			return e.status/100 == 5
		}
		return e.status == status
	})
}
