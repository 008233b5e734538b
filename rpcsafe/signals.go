package rpcsafe

import (
	"slices"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
)

// effect is what an attempt that ended so has done.
type effect uint8

const (
	answered   effect = iota + 1 // whatever the answer says
	didNothing                   // nothing, for certain; what earlier attempts have done is as unclear as before
	mayHaveRun                   // nobody knows
)

// signal is a row of the table: what a failed reply that looks like this means.
type signal struct {
	name    string
	reasons []string    // any of these, in an ErrorInfo of our domain; none: whatever it says
	codes   []code.Code // any of these; none: whatever the code
	shows   shows       // and this
	again   bool        // another attempt, after a wait; otherwise that is it
	effect  effect
}

// shows is what else a reply must show.
type shows uint8

const (
	nothingElse shows = iota
	theMarker         // of a replay
	aBeginning        // an answer had begun to come in
	aTime             // when to come again
)

// Names that are needed elsewhere.
const (
	signalSuccess  = "success"
	signalInFlight = "in-flight"
	signalNotKept  = "not-kept"
	signalStop     = "told-to-stop"
)

// signals returns the table, which docs/grpc.md explains. The first row that fits counts; OK is above all of them.
func signals() []signal {
	notDone := []code.Code{code.Code_UNAUTHENTICATED, code.Code_PERMISSION_DENIED, code.Code_ABORTED, code.Code_UNIMPLEMENTED}
	unclear := []code.Code{code.Code_UNKNOWN, code.Code_INTERNAL, code.Code_DATA_LOSS, code.Code_DEADLINE_EXCEEDED, code.Code_CANCELLED}
	return []signal{
		{"outcome-resumes", []string{ReasonOutcomeUnknown}, nil, aTime, true, mayHaveRun},
		{"outcome-unknown", []string{ReasonOutcomeUnknown}, nil, nothingElse, false, mayHaveRun},
		{"key-reused", []string{ReasonKeyReused}, nil, nothingElse, false, didNothing},
		{signalNotKept, []string{ReasonNotKept}, nil, nothingElse, false, answered},
		{"key-expired", []string{ReasonKeyExpired, ReasonUnreadable}, nil, nothingElse, false, mayHaveRun},
		{signalInFlight, []string{ReasonInFlight}, nil, nothingElse, true, mayHaveRun},
		{"try-later", []string{ReasonStoreUnavailable, ReasonKeyQuota}, nil, nothingElse, true, didNothing},
		{"refused", []string{ReasonKeyMissing, ReasonKeyMalformed, ReasonScopeUnresolved, ReasonNotSupported, ReasonNotProtobuf}, nil, nothingElse, false, didNothing},
		{"replayed-failure", nil, unclear, theMarker, false, mayHaveRun},
		{"replayed", nil, nil, theMarker, false, answered},
		{"cut-off", nil, []code.Code{code.Code_RESOURCE_EXHAUSTED}, aBeginning, true, mayHaveRun},
		{"exhausted", nil, []code.Code{code.Code_RESOURCE_EXHAUSTED}, nothingElse, true, didNothing},
		{"unavailable", nil, []code.Code{code.Code_UNAVAILABLE}, nothingElse, true, mayHaveRun},
		{"no-answer", nil, []code.Code{code.Code_DEADLINE_EXCEEDED, code.Code_CANCELLED}, nothingElse, true, mayHaveRun},
		{"server-error", nil, []code.Code{code.Code_UNKNOWN, code.Code_INTERNAL, code.Code_DATA_LOSS}, nothingElse, true, mayHaveRun},
		{"not-done", nil, notDone, nothingElse, false, didNothing},
		{"answer", nil, nil, nothingElse, false, answered},
	}
}

// verdict is what becomes of a call after a failed reply.
type verdict struct {
	signal
	said  bool // when to send it again was said
	after time.Duration
}

// judge says what a failed reply means: the first row that fits, and the server's word on when to come again.
func (c *Client) judge(reply Reply) verdict {
	rows := signals()
	reason := reasonOf(reply.Status, c.o.Domain)
	i := slices.IndexFunc(rows, func(s signal) bool { return c.fits(s, reply, reason) })
	v := verdict{signal: rows[i]} // the last fits all
	stop := false
	v.after, v.said, stop = c.waitFor(reply)
	if stop && v.again {
		v.name, v.again = signalStop, false
	}
	return v
}

func (c *Client) fits(s signal, reply Reply, reason string) bool {
	switch {
	case len(s.reasons) > 0 && !slices.Contains(s.reasons, reason):
		return false
	case s.shows == theMarker && len(reply.Header[c.o.Marker])+len(reply.Trailer[c.o.Marker]) == 0:
		return false
	case s.shows == aBeginning && !reply.Begun:
		return false
	case s.shows == aTime && !c.invites(reply):
		return false
	}
	return len(s.codes) == 0 || slices.Contains(s.codes, reply.code())
}
