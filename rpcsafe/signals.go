package rpcsafe

import (
	"slices"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/genproto/googleapis/rpc/status"

	"github.com/retrysafe/retrysafe/client"
)

// signal is a row of the table: what a failed reply that looks like this means.
type signal struct {
	name    string
	reasons []string    // any of these, in an ErrorInfo of our domain; none: any reply
	codes   []code.Code // any of these; none: any code
	shows   shows       // which the reply must show as well
	again   bool        // another attempt, after a wait; otherwise this was the last
	effect  client.Effect
}

// shows is what else a reply must show.
type shows uint8

const (
	nothingElse shows = iota
	theMarker         // the marker of replays
	aBeginning        // the client received the beginning of an answer
	aTime             // a time to retry
)

// Names that are needed elsewhere.
const (
	signalSuccess = "success"
	signalNotKept = "not-kept"
	signalStop    = "told-to-stop"
)

// signals returns the table, which docs/grpc.md explains. The first row that fits counts; OK is above all of them.
func signals() []signal {
	notDone := []code.Code{
		code.Code_UNAUTHENTICATED, code.Code_PERMISSION_DENIED, code.Code_ABORTED,
		code.Code_UNIMPLEMENTED,
	}
	unclear := []code.Code{
		code.Code_UNKNOWN, code.Code_INTERNAL, code.Code_DATA_LOSS, code.Code_DEADLINE_EXCEEDED,
		code.Code_CANCELLED,
	}
	return []signal{
		{"outcome-resumes", []string{ReasonOutcomeUnknown}, nil, aTime, true, client.MayHaveRun},
		{"outcome-unknown", []string{ReasonOutcomeUnknown}, nil, nothingElse, false, client.MayHaveRun},
		{"key-reused", []string{ReasonKeyReused}, nil, nothingElse, false, client.DidNothing},
		{signalNotKept, []string{ReasonNotKept}, nil, nothingElse, false, client.Answered},
		{"key-expired", []string{ReasonKeyExpired, ReasonUnreadable}, nil, nothingElse, false, client.MayHaveRun},
		{client.InFlight, []string{ReasonInFlight}, nil, nothingElse, true, client.MayHaveRun},
		{"try-later", []string{
			ReasonStoreUnavailable, ReasonScopeUnavailable, ReasonKeyQuota,
		}, nil, nothingElse, true, client.DidNothing},
		{"refused", []string{
			ReasonKeyMissing, ReasonKeyMalformed, ReasonScopeUnresolved, ReasonNotSupported,
			ReasonNotProtobuf,
		}, nil, nothingElse, false, client.DidNothing},
		{"replayed-failure", nil, unclear, theMarker, false, client.MayHaveRun},
		{"replayed", nil, nil, theMarker, false, client.Answered},
		{"cut-off", nil, []code.Code{code.Code_RESOURCE_EXHAUSTED}, aBeginning, true, client.MayHaveRun},
		{"exhausted", nil, []code.Code{code.Code_RESOURCE_EXHAUSTED}, nothingElse, true, client.DidNothing},
		{"unavailable", nil, []code.Code{code.Code_UNAVAILABLE}, nothingElse, true, client.MayHaveRun},
		{
			"no-answer", nil,
			[]code.Code{code.Code_DEADLINE_EXCEEDED, code.Code_CANCELLED},
			nothingElse, true,
			client.MayHaveRun,
		},
		{
			"server-error", nil,
			[]code.Code{code.Code_UNKNOWN, code.Code_INTERNAL, code.Code_DATA_LOSS},
			nothingElse,
			true, client.MayHaveRun,
		},
		{"not-done", nil, notDone, nothingElse, false, client.DidNothing},
		{"answer", nil, nil, nothingElse, false, client.Unproven},
	}
}

// judge says what a failed reply means: the first row that fits, and how long the server asks the client to wait.
func (c *Client) judge(reply Reply) client.Reply {
	rows, reason := signals(), reasonOf(reply.Status, c.o.Domain)
	after, asked, stop := waitFor(reply)
	row := rows[slices.IndexFunc(rows, func(s signal) bool { // the last fits all
		return c.fits(s, reply, reason, asked && !stop)
	})]
	if stop && row.again {
		row.name, row.again = signalStop, false
	}
	r := client.Reply{RetryAfter: after, Exactly: asked, Last: stop}
	r.Signal = client.Signal{Name: row.name, Action: client.Finish, Effect: row.effect}
	switch {
	case row.again:
		r.Signal.Action = client.Again
	case row.name == signalNotKept:
		r.Signal.Action = client.NotKept
	case row.effect == client.MayHaveRun:
		r.Signal.Action = client.GiveUp
	}
	return r
}

func (c *Client) fits(s signal, reply Reply, reason string, invited bool) bool {
	switch {
	case len(s.reasons) > 0 && !slices.Contains(s.reasons, reason):
		return false
	case s.shows == theMarker && len(reply.Header[c.o.Marker])+len(reply.Trailer[c.o.Marker]) == 0:
		return false
	case s.shows == aBeginning && !reply.Begun:
		return false
	case s.shows == aTime && !invited:
		return false
	}
	return len(s.codes) == 0 || slices.Contains(s.codes, reply.code())
}

// waitFor returns how long the server asks the client to wait, by pushback or else by RetryInfo. stop says that it
// asks for no retry.
func waitFor(reply Reply) (after time.Duration, asked, stop bool) {
	if values := reply.Trailer[pushback]; len(values) > 0 {
		ms, err := strconv.ParseInt(values[0], 10, 32)
		return time.Duration(ms) * time.Millisecond, true, err != nil || ms < 0 || len(values) > 1
	}
	for _, d := range reply.Status.GetDetails() {
		if info := new(errdetails.RetryInfo); d.UnmarshalTo(info) == nil {
			return info.GetRetryDelay().AsDuration(), true, false
		}
	}
	return 0, false, false
}

// reasonOf returns the reason of the ErrorInfo of our domain; empty if there is none.
func reasonOf(s *status.Status, domain string) string {
	for _, d := range s.GetDetails() {
		if info := new(errdetails.ErrorInfo); d.UnmarshalTo(info) == nil && info.Domain == domain {
			return info.Reason
		}
	}
	return ""
}
