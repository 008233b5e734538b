package retrysafe

import (
	"crypto/rand"
	"encoding/json"
	"slices"
	"strings"
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
	// Tags are those of the record's first claim, if the store keeps tags, as every [Finder] does.
	Tags Tags
	// Sightings count the requests that found the record, if the store is a [SightingKeeper], by Kind, which each comes
	// once. Only Inspect returns them.
	Sightings []Sighting
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
	// Omitted says that the work has run but its answer was not kept (too large, streamed, not encodable, not to be
	// stored). A retry gets the result without it; the work never runs again.
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

// AuditStepPrefix begins the names of the steps in which a record keeps its trail. Step refuses such names.
const AuditStepPrefix = "retrysafe.audit/"

// AuditEntry is one decision that a person has made about a key. See [Record.Trail].
type AuditEntry struct {
	Action ResolveAction `json:"action"`
	// By and Reason are copied from the Resolution, the Purge or the Reopening.
	By     string `json:"by,omitempty"`
	Reason string `json:"reason"`
	// At is the time of the decision, on the clock of the process that saved it.
	At time.Time `json:"at"`
	// Attempt and Fence are those of the claim under which the decision was carried out; of a purge and of a reopening,
	// those of the attempt that had ended.
	Attempt int   `json:"attempt"`
	Fence   int64 `json:"fence"`
	// Failed, Code and Bytes (of the body) describe the answer that the key was given.
	Failed bool `json:"failed,omitempty"`
	Code   int  `json:"code,omitempty"`
	Bytes  int  `json:"bytes,omitempty"`
	// Unfinished says that the decision was saved and not carried out: the process or the store failed in between, and
	// the key was abandoned again.
	Unfinished bool `json:"unfinished,omitempty"`
}

// leftReleased is the action of an entry that is not a decision: an attempt has claimed a released key by mistake and
// left it released. Trail does not show it.
const leftReleased ResolveAction = "left released"

// newAuditEntry returns the step that holds an entry about the record as it will be after the decision.
func newAuditEntry(action ResolveAction, reason, by string, known Record) StepResult {
	e := AuditEntry{
		Action: action, By: by, Reason: reason, At: time.Now().UTC().Round(time.Millisecond),
		Attempt: known.Attempt, Fence: known.Fence,
	}
	if action == ResolveComplete || action == ResolveFail {
		e.Failed, e.Code, e.Bytes = known.Result.Failed, known.Result.Code, len(known.Result.Body)
		if known.Result.isResolvedFailure() {
			e.Code = 0
		}
	}
	data, err := json.Marshal(e)
	if err != nil {
		panic(err) // strings, numbers and a time
	}
	return StepResult{Name: AuditStepPrefix + rand.Text(), Data: data}
}

// Trail returns the decisions of people about the key ([Guard.Resolve], [Guard.Purge], [Guard.Reopen]), oldest first.
// It reads them from the record's Steps, and so needs a record of [Inspector.Inspect]. Decisions are kept as steps
// because steps live and are deleted with the record in every store.
func (r Record) Trail() []AuditEntry {
	trail := slices.DeleteFunc(r.auditEntries(), func(e AuditEntry) bool { return e.Action == leftReleased })
	for i := range trail {
		trail[i].Unfinished = r.leftUnfinished(trail[i], trail[i+1:])
	}
	return trail
}

// auditEntries returns the entries of the trail and those that Trail does not show, oldest first.
func (r Record) auditEntries() []AuditEntry {
	var entries []AuditEntry
	for _, s := range r.Steps {
		if !s.isAudit() {
			continue
		}
		var e AuditEntry
		if err := json.Unmarshal(s.Data, &e); err != nil {
			e.Reason = "(this entry cannot be read)"
		}
		entries = append(entries, e)
	}
	return entries
}

// leftUnfinished reports whether a decision was not carried out, by what came after it. A release that was followed by
// an attempt counts as carried out: that is what it was for.
func (r Record) leftUnfinished(e AuditEntry, later []AuditEntry) bool {
	switch {
	case e.ofEnded():
		return false
	case e.Fence == r.Fence:
		return r.State == Pending
	case e.Action == ResolveRelease: // the next decision takes the key over if it was left abandoned
		return len(later) > 0 && later[0].Attempt == e.Attempt+1 && !later[0].ofEnded()
	}
	return !slices.ContainsFunc(later, func(l AuditEntry) bool { return l.ofEnded() && l.Fence == e.Fence })
}

// ofEnded reports whether the decision was made about a key that had ended, in one step with what it changed.
func (e AuditEntry) ofEnded() bool { return e.Action == ResolvePurge || e.Action == ResolveReopen }

// WithoutTrail returns the record with the steps of the work only.
func (r Record) WithoutTrail() Record {
	r.Steps = workSteps(r.Steps)
	return r
}

func workSteps(steps []StepResult) []StepResult {
	if !slices.ContainsFunc(steps, StepResult.isAudit) {
		return steps
	}
	return slices.DeleteFunc(slices.Clone(steps), StepResult.isAudit)
}

func (s StepResult) isAudit() bool { return strings.HasPrefix(s.Name, AuditStepPrefix) }

// releasedAt returns the attempt under which a person last released the key or which a person has reopened, or the last
// one that left it released since; 0 if there is none.
func (r Record) releasedAt() int {
	for _, e := range slices.Backward(r.auditEntries()) {
		if e.Action == ResolveRelease || e.Action == ResolveReopen || e.Action == leftReleased {
			return e.Attempt
		}
	}
	return 0
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
