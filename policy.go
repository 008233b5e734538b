package retrysafe

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Policy says how a Guard treats one kind of operation. The zero Policy works; each field's comment gives its default.
type Policy struct {
	// Lease is how long a claim lasts without a heartbeat, and so how long after a crash the key counts as in flight
	// before it counts as abandoned. A heartbeat is sent every third of it. Lease also bounds calls to the store (see
	// Options.StoreTimeout), and a claim whose answer takes more than a third of it counts as lost. Less than 10 ms is
	// an error; choose seconds at least. Default 30 s.
	Lease time.Duration
	// Timeout bounds the work: its context ends after it, even if the caller would wait longer. Default 5 min;
	// negative: none.
	Timeout time.Duration
	// Retention of records after their end. With replaces the windows that are set, and leaves the others as they were
	// given. Default 24 h for each window.
	Retention Retention
	// FailureRetention is the Retention of records that end with a failure (Result.Failed; over HTTP, a status of 400 or
	// more): a card that was declined, and works again, need not be answered with the refusal for a day. Default: that
	// of all records. A service that completes its key through SQL functions chooses for itself, and what Guard.Resolve
	// ends is kept for at least as long as the record had left.
	FailureRetention Retention
	// MaxResult is the largest Result that is kept, in bytes of Meta and Body together. Of a larger one only Failed and
	// Code are kept (Result.Omitted). It is also the largest result of a step. Default 1 MiB.
	MaxResult int
	// OnInFlight says what a request gets while another attempt works on its key. Default Reject(). Services should
	// choose Wait(5 * time.Second) or so: few client libraries retry a 409.
	OnInFlight InFlightPolicy
	// OnAbandoned says what a request gets whose key was abandoned: the process died while the work ran, the work
	// panicked, it returned an error marked Unknown, or it returned an error without a mark after its context had ended.
	// It also says what any other error without a mark means: see Refuse, Rerun, RerunTx and Reconcile. Default
	// Refuse().
	OnAbandoned AbandonedPolicy
	// OnStoreError says what a request gets when the store fails before the key is claimed. Default FailClosed.
	OnStoreError StoreErrorPolicy
	// HoldUnsaved is how long after the end of the work its caller waits for the answer if the store fails to save it.
	// After that it gets the answer unsaved (Outcome.Stored is false), and so do retries in this process: if the process
	// ends before the answer is saved, the outcome of the key is unknown nevertheless. Default 5 s; negative: not at
	// all.
	HoldUnsaved time.Duration
	// AsyncClaim lets the store answer a claim before it is on disk, which spares each request one wait for the disk.
	// pgstore does so, with an asynchronous commit; other stores ignore it. The transaction that completes the key comes
	// later in the same log, and makes both last. If the database crashes before, it loses the claim: the next request
	// runs the work as attempt 1, and neither a person nor a [ReconcileFunc] is asked. So it is an error under [Refuse],
	// and suits only work that lies wholly in the transaction that completes the key. With cannot switch it off.
	// Default false.
	AsyncClaim bool
}

// InFlightPolicy says what a request gets while another attempt works on its key. It is made by [Reject] or [Wait]; the
// zero policy means the default.
type InFlightPolicy struct {
	kind inFlightKind
	max  time.Duration
}

type inFlightKind uint8

const (
	inFlightReject inFlightKind = iota + 1
	inFlightWait
)

// Reject refuses at once, with [ErrInFlight].
func Reject() InFlightPolicy { return InFlightPolicy{kind: inFlightReject} }

// Wait waits up to limit for the running attempt to end and then answers as if the request had come just after it. If
// it is still running, the answer is [ErrWaitTimeout]. All waiters for a key in one process cost the store what one
// costs.
func Wait(limit time.Duration) InFlightPolicy {
	return InFlightPolicy{kind: inFlightWait, max: limit}
}

// String returns "reject", or "wait" and the limit.
func (p InFlightPolicy) String() string {
	if p.kind == inFlightWait {
		return "wait " + p.max.String()
	}
	return "reject"
}

// Equal reports whether p and q say the same. The zero policy equals Reject().
func (p InFlightPolicy) Equal(q InFlightPolicy) bool {
	return p == q || p.kind != inFlightWait && q.kind != inFlightWait
}

// AbandonedPolicy says what a request gets whose key was abandoned. It is made by [Refuse], [Rerun], [RerunTx] or
// [Reconcile]; the zero policy means the default.
type AbandonedPolicy struct {
	kind      abandonedKind
	reconcile ReconcileFunc
}

type abandonedKind uint8

const (
	abandonedRefuse abandonedKind = iota + 1
	abandonedRerun
	abandonedReconcile
	abandonedRerunTx
)

// ReconcileFunc asks other systems what became of an abandoned operation. It runs inside an attempt that has taken the
// key over, so that no other attempt does the same meanwhile.
//
//   - It returns a Result: that is what happened; it is saved and every retry gets it.
//   - It returns nil, nil: nothing happened; the work runs.
//   - It returns an error: still unknown; the key is abandoned again and the caller gets [ErrAbandoned].
type ReconcileFunc func(ctx context.Context, a *Attempt, abandoned Record) (*Result, error)

// Refuse answers [ErrAbandoned] until a person resolves the key with [Guard.Resolve] or the command "retrysafe keys
// resolve". It is the safe choice when nothing is known about the work. An error that the work returns without a mark
// is final, because another attempt would never be allowed to find out what the first one did.
func Refuse() AbandonedPolicy { return AbandonedPolicy{kind: abandonedRefuse} }

// Rerun takes the key over and runs the work again, from its saved steps on. Use it only for work that is safe to enter
// again, because every effect is in a step whose child key the other system recognises, or in InTx. See [RerunTx] for
// work without other effects than those of its transaction.
//
// Under Rerun and [Reconcile] an error without a mark abandons the key, and so does an answer of [ClassAmbiguous], such
// as 500 over HTTP, unless the adapter's option Ambiguous says otherwise: the next request with the key runs the work
// again. Mark an error that another attempt would only repeat with [Terminal].
func Rerun() AbandonedPolicy { return AbandonedPolicy{kind: abandonedRerun} }

// RerunTx is [Rerun] for work all of whose effects are in one database transaction, which also completes the key: a
// store's InTx. An attempt that has not completed its key has then done nothing. So an error without a mark, and an
// answer of [ClassAmbiguous] such as 500 over HTTP, release the key: for HTTP, RPC and queues alike, without Retryable,
// httpsafe.Release or [AmbiguousRelease]. If a database does not say whether it has committed, the key is abandoned,
// and the next request takes it over.
//
// Do not use it for work with any other effect, such as a call to another service or a mail: use steps and Rerun.
func RerunTx() AbandonedPolicy { return AbandonedPolicy{kind: abandonedRerunTx} }

// Reconcile takes the key over and calls f, which finds out what the abandoned attempt did.
func Reconcile(f ReconcileFunc) AbandonedPolicy {
	return AbandonedPolicy{kind: abandonedReconcile, reconcile: f}
}

// String returns "refuse", "rerun", "reconcile" or "rerun_tx".
func (p AbandonedPolicy) String() string {
	if p.kind == 0 {
		return "refuse"
	}
	return name(int(p.kind), abandonedNames...)
}

// Resumes reports whether a retry may run an abandoned operation again: false for [Refuse] and the zero policy,
// true for the others.
func (p AbandonedPolicy) Resumes() bool { return p.kind > abandonedRefuse }

// Equal reports whether p and q are of one kind: both [Refuse] (or zero), both [Rerun], and so on. The functions of
// two [Reconcile] policies are not compared, because functions cannot be.
func (p AbandonedPolicy) Equal(q AbandonedPolicy) bool {
	return max(p.kind, abandonedRefuse) == max(q.kind, abandonedRefuse)
}

// AmbiguousPolicy says what happens to the key of an answer of [ClassAmbiguous], such as 500 over HTTP.
type AmbiguousPolicy uint8

const (
	// AmbiguousStore keeps and replays the answer: the operation never runs twice.
	AmbiguousStore AmbiguousPolicy = iota + 1
	// AmbiguousRelease frees the key: ClassAmbiguous counts as ClassRelease, over this adapter alone. Use it only for
	// operations that may run twice, or that undo all they did before they fail. If they undo it because everything is in
	// one transaction with the key, choose RerunTx instead, which implies this and holds after a crash too.
	AmbiguousRelease
	// AmbiguousUnknown abandons the key: Policy.OnAbandoned decides what a retry gets.
	AmbiguousUnknown
)

// String returns "store", "release" or "unknown".
func (p AmbiguousPolicy) String() string { return name(int(p), ambiguousNames...) }

// Or returns p, or the default under policy if p is zero: [AmbiguousStore] under [Refuse]. Work that may be entered
// again after a crash may be entered again after a server error too: it is [AmbiguousUnknown] under [Rerun] and
// [Reconcile], and [AmbiguousRelease] under [RerunTx]. What work means by an error without a mark follows the same
// rule.
func (p AmbiguousPolicy) Or(policy Policy) AmbiguousPolicy {
	switch {
	case p != 0:
		return p
	case policy.OnAbandoned.kind == abandonedRerunTx:
		return AmbiguousRelease
	case policy.OnAbandoned.Resumes():
		return AmbiguousUnknown
	}
	return AmbiguousStore
}

// Apply returns c, with [ClassAmbiguous] replaced by the class that p stands for. The zero policy is [AmbiguousStore].
func (p AmbiguousPolicy) Apply(c Class) Class {
	if c != ClassAmbiguous {
		return c
	}
	switch p {
	case AmbiguousRelease:
		return ClassRelease
	case AmbiguousUnknown:
		return ClassUnknown
	}
	return ClassStore
}

// StoreErrorPolicy says what a request gets when the store fails before it has said whether the key is free.
type StoreErrorPolicy uint8

const (
	// FailClosed refuses with ErrStoreFailed: nothing runs unprotected.
	FailClosed StoreErrorPolicy = iota + 1
	// FailOpen runs the work without protection: a retry may run it again. Observers are told each time
	// (RanUnprotected). If the store fails after it has said that the key is taken, the request is refused as with
	// FailClosed.
	FailOpen
)

// String returns "fail closed" or "fail open".
func (p StoreErrorPolicy) String() string {
	if p == FailOpen {
		return "fail open"
	}
	return "fail closed"
}

// shortestLease is a hundred times what a local store takes: anything shorter is a mistake.
const shortestLease = 10 * time.Millisecond

// Validate returns an error if Lease is set and too short for heartbeats to keep it alive, or if another duration is so
// short that its unit must be missing, or if AsyncClaim is set under Refuse. New and With panic with that error; call
// Validate where a configuration is read.
func (p Policy) Validate() error {
	if p.Lease > 0 && p.Lease < shortestLease {
		return fmt.Errorf("retrysafe: Policy.Lease is %v; it must be at least %v "+
			"(is the unit missing, as in 30*time.Second?)", p.Lease, shortestLease)
	}
	if p.AsyncClaim && !p.OnAbandoned.Resumes() {
		return errors.New("retrysafe: Policy.AsyncClaim needs work that may run again after a crash of the store: set " +
			"OnAbandoned to RerunTx(), or leave AsyncClaim out")
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"Timeout", p.Timeout},
		{"OnInFlight: Wait", p.OnInFlight.max},
		{"HoldUnsaved", p.HoldUnsaved},
		{"Retention.Replay", p.Retention.Replay},
		{"Retention.Key", p.Retention.Key},
		{"Retention.Audit", p.Retention.Audit},
		{"FailureRetention.Replay", p.FailureRetention.Replay},
		{"FailureRetention.Key", p.FailureRetention.Key},
		{"FailureRetention.Audit", p.FailureRetention.Audit},
	} {
		if d.value > 0 && d.value < time.Millisecond {
			return fmt.Errorf("retrysafe: Policy.%s is %v; it must be at least 1ms (is the unit missing, as in 24*time.Hour?)",
				d.name, d.value)
		}
	}
	return nil
}

// WithDefaults returns p with the fields that are not set filled in as New does: Policy{}.WithDefaults() is the default
// policy.
func (p Policy) WithDefaults() Policy { return p.or(defaultPolicy()).ready() }

// CompletedElsewhere returns p with what is not set filled in for work that another process completes in a transaction
// of its own (see [AttemptControl.CompletedElsewhere]). OnAbandoned is [Rerun]: what the other process has not
// committed is refused once the key is taken over. Timeout is 30 s, and Lease is three times Timeout: a heartbeat
// writes to the record that the transaction is about to complete, and a transaction that is serializable or a
// repeatable read would fail. A crash blocks the key for as long as the lease, so that Timeout should not be much
// longer than the work takes.
func (p Policy) CompletedElsewhere() Policy {
	if p.OnAbandoned.kind == 0 {
		p.OnAbandoned = Rerun()
	}
	p.Timeout = orElse(p.Timeout, 30*time.Second)
	if p.Lease <= 0 && p.Timeout > 0 {
		p.Lease = 3 * p.Timeout
	}
	return p
}

// or returns p with the fields that are not set taken from base.
func (p Policy) or(base Policy) Policy {
	p.Lease = orElse(max(p.Lease, 0), base.Lease) // a negative lease would mean heartbeats without a pause
	p.Timeout = orElse(p.Timeout, base.Timeout)
	p.MaxResult = orElse(p.MaxResult, base.MaxResult)
	p.Retention = p.Retention.or(base.Retention)
	p.FailureRetention = p.FailureRetention.or(base.FailureRetention)
	p.OnStoreError = orElse(p.OnStoreError, base.OnStoreError)
	p.HoldUnsaved = orElse(p.HoldUnsaved, base.HoldUnsaved)
	p.AsyncClaim = p.AsyncClaim || base.AsyncClaim
	if p.OnInFlight.kind == 0 {
		p.OnInFlight = base.OnInFlight
	}
	if p.OnAbandoned.kind == 0 {
		p.OnAbandoned = base.OnAbandoned
	}
	return p
}

// ready returns p with the windows of its retentions nested.
func (p Policy) ready() Policy {
	p.Retention = p.Retention.WithDefaults()
	if p.FailureRetention == (Retention{}) {
		p.FailureRetention = p.Retention
	}
	p.FailureRetention = p.FailureRetention.WithDefaults()
	return p
}

// RetentionOf returns for how long a record that ends with the result is kept: FailureRetention if it is a failure.
func (p Policy) RetentionOf(r Result) Retention {
	if r.Failed {
		return p.FailureRetention
	}
	return p.Retention
}

func defaultPolicy() Policy {
	return Policy{
		Lease:        30 * time.Second,
		Timeout:      5 * time.Minute,
		MaxResult:    1 << 20,
		OnInFlight:   Reject(),
		OnAbandoned:  Refuse(),
		OnStoreError: FailClosed,
		HoldUnsaved:  5 * time.Second,
	}
}

// orElse returns v, or fallback if v is the zero value.
func orElse[T comparable](v, fallback T) T {
	var zero T
	if v == zero {
		return fallback
	}
	return v
}
