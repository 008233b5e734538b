package client

import "time"

// Signal is what a transport makes of a reply: a row of its table of signals.
type Signal struct {
	// Name of the row, such as "in-flight". InFlight is the only one that the engine knows.
	Name   string
	Action Action
	Effect Effect
}

// InFlight is the Name of signals which say that another attempt is at work. The server is well and asks for patience:
// such attempts are bounded by [Options.MaxInFlight], and count neither as attempts nor against the budget.
const InFlight = "in-flight"

// Action is what the client does about a signal.
type Action uint8

// The actions.
const (
	// Finish: the reply is the answer, unless an earlier attempt may have run, and the reply's Effect does not say how
	// the operation ended.
	Finish Action = iota + 1
	// Again: another attempt, after a wait.
	Again
	// AtOnce: the same attempt goes on with another request, without a wait: to another URL, with a new credential.
	AtOnce
	// GiveUp: the outcome is unknown, and a further attempt would not tell it.
	GiveUp
	// NotKept: the operation ran and has ended, but the server did not keep its answer.
	NotKept
)

// Effect is the proof of execution that a reply gives.
type Effect uint8

// The effects.
const (
	// Answered: the operation ended as the answer says.
	Answered Effect = iota + 1
	// DidNothing: this attempt did nothing, for certain. It says nothing of earlier ones.
	DidNothing
	// MayHaveRun: whether this attempt ran is unknown.
	MayHaveRun
	// Unproven: the operation ended as the answer says, or the answer is that of a layer before it, such as a gateway.
	// It says nothing of earlier attempts: a server that marks replays would have marked the answer of one of them. If
	// one of them may have run, the request is sent again, because the answer is marked then if it is the operation's.
	// With Reply.Last it is not sent again.
	Unproven
)

// Reply is what came of sending a request once.
type Reply struct {
	Signal Signal
	// Status or Code of the answer, for events; 0 and empty if there is none.
	Status int
	Code   string
	// Err is why there is no answer; or, if IsAnswer is set, the answer itself, as in gRPC. It may be nil.
	Err error
	// IsAnswer says that there is an answer for the caller: the transport has it, or it is Err.
	IsAnswer bool
	// RetryAfter is how long the server asks the client to wait. 0: it does not say, unless Exactly is set.
	RetryAfter time.Duration
	// Exactly: RetryAfter is obeyed as it is. Otherwise the engine adds a random part, because clients that were told
	// the same second must not come back together.
	Exactly bool
	// Retention is how long the server says that it keeps this answer, which is not a replay; 0: it does not say.
	Retention time.Duration
	// Last says that the transport allows no further attempt after a reply of this kind.
	Last bool
}
