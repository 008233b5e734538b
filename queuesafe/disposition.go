package queuesafe

import "time"

// Disposition is what happens to a message.
type Disposition struct {
	// Action is what the adapter does with the message.
	Action Action
	// Situation is why.
	Situation Situation
	// Delay is how long to wait before the message is delivered again, if Action is Later. 0: deliver it at once.
	Delay time.Duration
	// Err is the handler's error, or the reason why the handler did not run; nil if the work has succeeded. Retrysafe's
	// own errors name a key by its digest; a handler's error may say anything.
	Err error
}

// Action is what an adapter does with a message.
type Action uint8

const (
	// Ack removes the message: its key has ended.
	Ack Action = iota + 1
	// Later leaves the message for another delivery.
	Later
	// Dead gives the message up: it goes to the dead letters, or is removed if there are none. If that fails, the
	// message is left, and the next delivery has the same result.
	Dead
)

// String returns "ack", "later" or "dead".
func (a Action) String() string { return name(int(a), "ack", "later", "dead") }

// Situation is why a message gets its Action. Its String is fit for a header and for a metric's label.
type Situation uint8

// The situations, in the order of the table in docs/queues.md.
const (
	// Processed: the handler ran now, succeeded, and its end is saved. Ack.
	Processed Situation = iota + 1
	// Duplicate: the handler had succeeded before; this delivery cost one read. Ack.
	Duplicate
	// Unprotected: the handler ran and succeeded although the store failed (FailOpen). Ack.
	Unprotected
	// InFlight: another attempt works on the key, or has taken it over from this one. Later.
	InFlight
	// Retryable: the handler reported that nothing happened. Later; Dead after Options.MaxDeliveries.
	Retryable
	// Unknown: an attempt started, and whether it completed is unknown. Later: the next delivery takes the key over, or,
	// under Refuse, an operator can resolve the key meanwhile. Dead after Options.MaxDeliveries.
	Unknown
	// Unsaved: the handler ran, but saving its end failed; saving is retried in the background. Later.
	Unsaved
	// StoreDown: the store failed or is full; nothing ran. Later.
	StoreDown
	// Stopping: this consumer is shutting down; nothing ran. Later, without delay.
	Stopping
	// Failed: the handler failed for good, now or before. Dead.
	Failed
	// Poison: the key has had Options.MaxAttempts attempts, none with a known outcome. It ends as failed, without another
	// attempt. Dead.
	Poison
	// NoKey: the message has no key, or an invalid one. Dead.
	NoKey
	// Mismatch: the key was first used for another message. Dead.
	Mismatch
)

// rule is a row of the table that says what happens to a message.
type rule struct {
	name    string
	action  Action
	limited bool // Dead after MaxDeliveries
	atOnce  bool // delivered again without delay
	because string
}

// rules is the table. docs/queues.md shows it, and a test compares them.
var rules = [...]rule{
	Processed:   {name: "processed", action: Ack, because: "the key has ended"},
	Duplicate:   {name: "duplicate", action: Ack, because: "the key had ended before"},
	Unprotected: {name: "unprotected", action: Ack, because: "the policy is to run without the store"},
	InFlight:    {name: "in_flight", action: Later, because: "the other attempt may still fail"},
	Retryable:   {name: "retryable", action: Later, limited: true, because: "nothing happened"},
	Unknown:     {name: "unknown", action: Later, limited: true, because: "the next delivery runs it again, or an operator finds out what happened"},
	Unsaved:     {name: "unsaved", action: Later, because: "the key has not ended yet"},
	StoreDown:   {name: "store_down", action: Later, because: "nothing ran"},
	Stopping:    {name: "stopping", action: Later, atOnce: true, because: "nothing ran"},
	Failed:      {name: "failed", action: Dead, because: "the handler failed for good"},
	Poison:      {name: "poison", action: Dead, because: "no attempt had a known outcome"},
	NoKey:       {name: "no_key", action: Dead, because: "another delivery would have no key either"},
	Mismatch:    {name: "mismatch", action: Dead, because: "the key was used for another message"},
}

// String returns the situation's name in snake case.
func (s Situation) String() string { return s.rule().name }

// Action returns what happens to a message in this situation, before [Options.MaxDeliveries].
func (s Situation) Action() Action { return s.rule().action }

func (s Situation) rule() rule {
	if int(s) >= len(rules) || rules[s].name == "" {
		return rule{name: "unset"}
	}
	return rules[s]
}

// name returns the i-th name, counted from 1, or "unset".
func name(i int, names ...string) string {
	if i < 1 || i > len(names) {
		return "unset"
	}
	return names[i-1]
}
