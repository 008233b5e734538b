package retrysafe

import (
	"slices"
	"time"
)

// Record is what a store keeps of a key, at the moment of its answer. Ages and times left are durations on the store's
// clock; a time left that has passed is 0.
type Record struct {
	Key         Key
	Fingerprint Fingerprint
	State       State
	// Fence and Attempt are those of the last claim. Attempt counts the claims of this record: 1 is the first, each
	// take-over and each resumption adds one.
	Fence   int64
	Attempt int
	// FirstFence is that of the record's first claim. It never changes; no other record of the key has it.
	FirstFence int64
	// Result is set once State is Succeeded or Failed. Claim leaves Meta and Body out once ReplayLeft is 0; Inspect
	// shows them until AuditLeft is 0.
	Result Result
	// Steps in the order in which they were saved. Claim may leave them out once the work has ended; Inspect shows them
	// until AuditLeft is 0. In what a store returns, Trail is among them.
	Steps []StepResult
	// Age counts from the record's first claim, EndedAge from its end or its release (while it is pending, it is 0).
	Age, EndedAge time.Duration
	// LeaseLeft is how long the lease of a pending record still runs; 0: it is abandoned.
	LeaseLeft time.Duration
	// ReplayLeft, KeyLeft and AuditLeft are what is left of the Retention, which counts from the end of the work, from
	// its release, or from the end of a lease that ran out. They are 0 while the lease runs.
	ReplayLeft, KeyLeft, AuditLeft time.Duration
}

// State of a record.
type State uint8

const (
	// Pending means claimed, without a result yet: in flight while the lease runs, abandoned once it has run out.
	Pending State = iota + 1
	// Released means given up after steps were saved. The same request may resume.
	Released
	// Succeeded means ended, with a result to replay.
	Succeeded
	// Failed means ended, with a failure to replay.
	Failed
)

// Ended reports whether the state is final: Succeeded or Failed.
func (s State) Ended() bool { return s == Succeeded || s == Failed }

// String returns the state's name in lower case.
func (s State) String() string { return name(int(s), "pending", "released", "succeeded", "failed") }

// String returns the verdict's name in lower case.
func (v Verdict) String() string { return name(int(v), "acquired", "in flight", "done", "abandoned") }

// Result is how the work ended: what a retry is told. The zero Result is a success without content. Empty and absent
// Meta and Body are the same.
type Result struct {
	// Failed says that the result is a final failure.
	Failed bool
	// Code is the protocol's status: an HTTP status, a gRPC code, or the code given to TerminalCode. It fits 32 bits.
	Code int
	// Meta describes the body: an encoded header, a content type. The adapter chooses its form.
	Meta []byte
	// Body is the answer, kept byte for byte.
	Body []byte
	// Omitted says that the work has run but its answer was not kept (too large, streamed, not encodable). A retry
	// gets the result without it; the work never runs again.
	Omitted bool
}

// State returns the state that a record completed with r is in.
func (r Result) State() State {
	if r.Failed {
		return Failed
	}
	return Succeeded
}

// Clone returns a copy that shares no memory with r.
func (r Result) Clone() Result {
	n := len(r.Meta)
	if n+len(r.Body) == 0 {
		r.Meta, r.Body = nil, nil
		return r
	}
	both := make([]byte, n+len(r.Body)) // one allocation
	copy(both, r.Meta)
	copy(both[n:], r.Body)
	r.Meta, r.Body = both[:n:n], both[n:]
	return r
}

func (r Result) size() int { return len(r.Meta) + len(r.Body) }

// StepResult is the saved result of a named part of the work.
type StepResult struct {
	Name string
	// Data is the result, encoded.
	Data []byte
}

// Clone returns a copy that shares no memory with s.
func (s StepResult) Clone() StepResult {
	s.Data = slices.Clone(s.Data)
	return s
}

// Retention says how long an ended record is kept for which purpose, counted from its end. Zero fields take defaults:
// see WithDefaults.
type Retention struct {
	// Replay is how long a retry gets the full answer.
	Replay time.Duration
	// Key is how long the key stays taken. A retry after Replay is told "done, no longer replayable". After Key the
	// key is free, and the same request runs as if it were new.
	Key time.Duration
	// Audit is how long support tools can read the record with its body. It takes no part in claims.
	Audit time.Duration
}

// DefaultRetention is how long records are kept unless a Retention says otherwise.
const DefaultRetention = 24 * time.Hour

// WithDefaults fills in what is not set, and makes the windows nest: Replay is 24 hours, or Key if that is shorter;
// Key and Audit are as long as Replay. A Key or Audit that is set but shorter than Replay is raised to it, so that
// no record is deleted early.
func (r Retention) WithDefaults() Retention {
	if r.Replay <= 0 {
		r.Replay = DefaultRetention
		if r.Key > 0 && r.Key < r.Replay {
			r.Replay = r.Key
		}
	}
	r.Key = max(r.Key, r.Replay)
	r.Audit = max(r.Audit, r.Replay)
	return r
}

// or returns r with the windows that are not set taken from base.
func (r Retention) or(base Retention) Retention {
	return Retention{
		Replay: orElse(r.Replay, base.Replay),
		Key:    orElse(r.Key, base.Key),
		Audit:  orElse(r.Audit, base.Audit),
	}
}

// name returns the i-th name, counted from 1, or "unknown".
func name(i int, names ...string) string {
	if i < 1 || i > len(names) {
		return "unknown"
	}
	return names[i-1]
}
