package retrysafe

import (
	"crypto/rand"
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// AuditStepPrefix begins the names of the steps in which a record keeps its trail. Step refuses such names.
const AuditStepPrefix = "retrysafe.audit/"

// AuditEntry is one decision that a person has made about a key. See Record.Trail.
type AuditEntry struct {
	Action ResolveAction `json:"action"`
	// By and Reason are copied from the Resolution or the Purge.
	By     string `json:"by,omitempty"`
	Reason string `json:"reason"`
	// At is the time of the decision, on the clock of the process that saved it.
	At time.Time `json:"at"`
	// Attempt and Fence are those of the claim under which the decision was carried out; of a purge, those of the
	// record.
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

// Trail returns the decisions of people about the key (Guard.Resolve, Guard.Purge), oldest first. It reads them from
// the record's Steps, and so needs a record of Inspector.Inspect. Decisions are kept as steps because steps live and
// are deleted with the record in every store.
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
	case e.Action == ResolvePurge:
		return false
	case e.Fence == r.Fence:
		return r.State == Pending
	case e.Action == ResolveRelease:
		return len(later) > 0 && later[0].Attempt == e.Attempt+1 // which takes an abandoned key
	}
	return true
}

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

// releasedAt returns the attempt under which a person last released the key, or the last one that left it released
// since; 0 if there is none.
func (r Record) releasedAt() int {
	for _, e := range slices.Backward(r.auditEntries()) {
		if e.Action == ResolveRelease || e.Action == leftReleased {
			return e.Attempt
		}
	}
	return 0
}
