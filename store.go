package retrysafe

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"time"
)

// Store keeps a record of each key, and decides atomically which attempt may work on it. The rules on top of that are
// in Guard.
//
// Four rules hold for every method:
//
//   - It is atomic: it happens as a whole or not at all, whatever runs beside it and however its context ends. With a
//     context that has ended before the call it changes nothing and returns an error that wraps the context's.
//   - It may be repeated: a caller that lost the answer calls again with the same arguments, and the second call adds
//     nothing. A store may repeat it itself, for example when a connection breaks.
//   - The store owns the clock: durations go in and come out, instants never do, so that callers whose clocks
//     disagree agree nevertheless.
//   - An error means that the store failed or that the lease is lost. Finding a key taken is an answer, not an error.
//
// Arguments and results are copies: neither side changes the other's bytes later.
//
// Five rules hold for retention. They apply to the Retention of a claim and to that of a completion, after
// WithDefaults:
//
//   - It counts from the end of the attempt: of a completed one from its completion, of an abandoned one from the end
//     of its lease as last extended, of one released with steps from the release. While a lease runs its record does
//     not expire, however short its Key.
//   - The Retention of the last claim counts for an attempt that has not ended, and so a take-over brings its own; the
//     one given to Complete replaces it.
//   - Until Replay has passed, a claim of an ended key gets the full Result. After that, and until Key has passed, it
//     gets Done without Meta and Body. Audit changes nothing about claims; one that is shorter than Key does not
//     shorten Key.
//   - A record past its Key is no record: no method but those of [Inspector] sees it, whether or not anything has swept
//     it away. The key is free for any request, whose record starts anew: attempt 1, no steps, its own age, a larger
//     fence. A write under the old lease, by its owner too, returns [ErrLeaseLost]; Release returns nil.
//   - The longest durations are not cut off: a deadline past what a store can represent is its last one.
//
// Package stores/storetest holds a test for every sentence of this contract; run it against any Store you write.
type Store interface {
	// Claim takes the key for one attempt, or reports its state. See ClaimParams and Verdict.
	//
	// It returns an error that wraps ErrStoreFull if a new key would exceed the store's limits, one that wraps
	// ErrNotReplayable if the key has a record whose content is lost, and one that wraps ErrUnreadable if it has a record
	// that the store cannot read. ErrStoreFull also says that no earlier claim by this Owner has made a record.
	Claim(ctx context.Context, p ClaimParams) (Claim, error)

	// Extend makes the lease run for d from now, even if it has already run out. With d = 0 it ends at once, which
	// leaves the key abandoned.
	//
	// It returns ErrLeaseLost if another attempt has taken the key over, or if this one has ended.
	Extend(ctx context.Context, l Lease, d time.Duration) error

	// Checkpoint saves one step's result under the lease. A later attempt at the same key is handed the saved steps
	// in the order in which they were saved. If the step's name is already saved, the first result stays.
	//
	// It returns ErrLeaseLost if another attempt has taken the key over, or if this one has ended, and
	// ErrResultTooLarge for a step that the store will never take.
	Checkpoint(ctx context.Context, l Lease, s StepResult) error

	// Complete saves the result and ends the attempt. A lease that ran out may still complete, unless another
	// attempt took over: then nothing is saved and it returns ErrLeaseLost, as it does after Release. When this
	// lease has already completed, the first result stays, with its retention, and Complete returns nil.
	//
	// It returns ErrResultTooLarge for a result that the store will never take, however often it is called. The same
	// result without Meta and Body is always taken.
	Complete(ctx context.Context, l Lease, r Result, keep Retention) error

	// Release gives the key up at once, without a result. If no steps were saved, the key is free for any request.
	// If steps were saved, the key is free for requests with the same fingerprint, which resume after those steps;
	// for others it is taken until ClaimParams.Keep.Key has passed since the release.
	//
	// It returns ErrLeaseLost if another attempt has the key, or if this one has completed; nil if no attempt has it.
	Release(ctx context.Context, l Lease) error
}

// Sealer is implemented by stores that wrap another one and change the content of records before that one keeps it:
// stores/cryptstore encrypts it. A transaction of the work that completes the attempt in the inner store (InTx,
// CompleteTx) bypasses the wrapper, so the Guard calls each Sealer among its store and those inside of it, the
// outermost first. It finds them by methods Unwrap() Store and StoreOf(Key) Store, which every wrapper around a Sealer
// needs.
//
// Both methods leave their arguments unchanged. An error leaves the attempt uncompleted.
type Sealer interface {
	// SealResult returns what the inner store keeps instead of r.
	SealResult(k Key, r Result) (Result, error)
	// SealStep returns what the inner store keeps instead of s.
	SealStep(k Key, s StepResult) (StepResult, error)
}

// seal returns v as each Sealer, from outer inwards, has it sealed. with is one of its methods.
func seal[T any](outer Store, k Key, v T, with func(Sealer, Key, T) (T, error)) (T, error) {
	for s := outer; s != nil; s = inside(s, k) {
		if sealer, ok := s.(Sealer); ok {
			var err error
			if v, err = with(sealer, k, v); err != nil {
				return v, err
			}
		}
	}
	return v, nil
}

// isStore reports whether s is outer, or a store inside of outer that has the key k.
func isStore(outer, s Store, k Key) bool {
	for ; outer != nil; outer = inside(outer, k) {
		if reflect.TypeOf(outer).Comparable() && outer == s {
			return true
		}
	}
	return false
}

// inside returns the store inside of s that has the key k, which methods Unwrap() Store and StoreOf(Key) Store return;
// nil if there is none.
func inside(s Store, k Key) Store {
	switch s := s.(type) {
	case interface{ Unwrap() Store }:
		return s.Unwrap()
	case interface{ StoreOf(Key) Store }:
		return s.StoreOf(k)
	}
	return nil
}

// As returns s, or the first store inside of it that implements T, which is an optional interface such as [Finder] or
// [Purger]. It finds stores inside of others by methods Unwrap() Store, as errors.As finds errors. s is a Store, or an
// [Inspector] that is one.
func As[T any](s any) (t T, ok bool) {
	for {
		if t, ok = s.(T); ok {
			return t, true
		}
		wrapper, wraps := s.(interface{ Unwrap() Store })
		if !wraps {
			return t, false
		}
		s = wrapper.Unwrap()
	}
}

// ClaimParams are the arguments of [Store.Claim]. Key, Owner, Lease and Keep are required; Fingerprint may be empty.
type ClaimParams struct {
	Key Key
	// Fingerprint of the request. Stores compare it byte for byte.
	Fingerprint Fingerprint
	// Owner names this attempt. Claiming again with the Owner that holds the key pending returns the same fence and
	// makes the lease run afresh, even if it has run out.
	Owner Owner
	// Lease is how long the claim lasts unless it is extended. It is positive; stores may round it up.
	Lease time.Duration
	// Keep counts from the end of the lease if the attempt never ends, so that people have time to see it; from a
	// release that left steps behind; and is replaced by the Retention given to Complete. See Store.
	Keep Retention
	// TakeOver claims an abandoned key too, if it has the same Fingerprint. Saved steps stay.
	TakeOver bool
	// Async allows the store to answer before the claim would outlive a crash of the store, if all that is written later
	// under the lease makes the claim last too: see Policy.AsyncClaim. Stores may ignore it.
	Async bool
	// Tags of a new record. A record that is there keeps its own. A store that is no [Finder] may ignore them.
	Tags Tags
	// Again is a hint: this Owner has claimed the key before, so that most likely there is a record. A store may look for
	// it before it tries to make one. The answer is the same with a hint that is wrong.
	Again bool
	// StateOnly says that the caller decides about the key and reads no content. A store that decrypts content leaves out
	// what it cannot decrypt then, instead of an error: steps of the work, and the answer. Other stores ignore it.
	StateOnly bool
}

// Claim is the store's answer to [ClaimParams].
type Claim struct {
	Verdict Verdict
	// Lease is set if Verdict is Acquired.
	Lease Lease
	// Record is what the store knows of the key. If Verdict is Acquired, it is the record after the claim: its
	// Steps are those that earlier attempts have saved.
	Record Record
	// Doubted says that the store has sent the claim more than once, because a connection broke. The first copy may
	// reach it late, and take the key for nobody after this attempt has released it: a Guard then undoes that claim. It is
	// set beside an error, too.
	Doubted bool
}

// clone returns a copy that shares no memory with c.
func (c Claim) clone() Claim {
	c.Record.Result = c.Record.Result.Clone()
	c.Record.Steps = cloneSteps(c.Record.Steps)
	return c
}

// Verdict says what a Claim found.
type Verdict uint8

const (
	// Acquired means that the claim was made. The key was free, or its retention had passed, or it was released, or it
	// was abandoned and ClaimParams.TakeOver asked for it, or ClaimParams.Owner had it already.
	Acquired Verdict = iota + 1
	// InFlight means that another attempt is working and its lease runs, or that its end is just being written, or that
	// the key was released with saved steps by a request with another fingerprint.
	InFlight
	// Done means that an attempt has ended; Record holds its result.
	Done
	// Abandoned means that an attempt started and its lease ran out; what it did is unknown.
	Abandoned
)

// Lease is the right to work on a key, limited in time. Every write names it, and a write under a lease that another
// attempt has taken over changes nothing.
type Lease struct {
	Key   Key
	Owner Owner
	// Fence grows with each claim of the key: through take-over, release, expiry and sweep. It is greater than any of
	// that key before it, and at least the store's clock in microseconds where no record exists. Systems that the work
	// writes to can compare it and refuse what comes from a smaller one.
	Fence int64
}

// Token returns the lease as text, for a service in another process that completes the key through SQL: "v1." and the
// base64url form, without padding, of the key's Digest (16 bytes), Owner (16 bytes) and Fence (8 bytes, big-endian).
// The key cannot be read back from it. It is "" for the lease of an attempt that is not protected.
//
// A token is a capability: a process that has it can complete, release or extend the key until the attempt ends. Give
// it to the service that does the work only; keep it out of logs and out of answers to clients.
func (l Lease) Token() string {
	if l.Fence == 0 {
		return ""
	}
	digest := l.Key.Digest()
	bytes := make([]byte, 0, len(digest)+len(l.Owner)+8)
	bytes = append(append(bytes, digest[:]...), l.Owner[:]...)
	bytes = binary.BigEndian.AppendUint64(bytes, uint64(l.Fence))
	return "v1." + base64.RawURLEncoding.EncodeToString(bytes)
}

// String names the lease without its Owner, because whoever knows that can complete the key.
func (l Lease) String() string { return fmt.Sprintf("lease of key %s with fence %d", l.Key, l.Fence) }

// GoString hides the owner from %#v too.
func (l Lease) GoString() string { return "retrysafe.Lease(" + l.String() + ")" }

// LogValue hides the owner from log/slog.
func (l Lease) LogValue() slog.Value { return slog.StringValue(l.String()) }

// Sweeper is implemented by stores whose records do not vanish by themselves.
type Sweeper interface {
	// Sweep makes one bounded pass: it deletes what is past its retention and drops bodies that may not be read any
	// more, of no more than limit records. The rest of a key that was released without steps is due within minutes. It
	// never touches a key whose lease runs. It returns the number of records that it deleted or whose bodies it
	// dropped; less than limit means that nothing more is due.
	Sweep(ctx context.Context, limit int) (int, error)
}

// Watcher is implemented by stores that can wake a waiter, so that it need not poll.
type Watcher interface {
	// Watch returns a channel that receives a value soon after the key's attempt ends, or gives up its claim by Release
	// or by Extend with 0: the attempt that has the key now, or that a Claim finds later. Values may be merged, and may
	// come without cause: claim again to see. stop frees what Watch holds; call it once. A lease that merely runs out
	// wakes no waiter.
	Watch(ctx context.Context, k Key) (changed <-chan struct{}, stop func(), err error)
}

// RiskReporter is implemented by stores that can read from their server what its settings may lose.
type RiskReporter interface {
	// Risks returns what is known to endanger an acknowledged claim or completion; nothing if nothing was found. It
	// reads settings and changes nothing. Programs report each risk when they start.
	Risks(ctx context.Context) ([]Risk, error)
}

// Risk is a setting, or the lack of one, with which a store may lose what it has acknowledged. Then the work of a key
// may run again.
type Risk struct {
	// Setting is what is set, in the words of the server: "appendfsync everysec".
	Setting string
	// Loses says in a sentence what is lost and by which event: "If the server crashes, claims of the last second are
	// lost."
	Loses string
	// Remedy says in a sentence what to do: "Set appendfsync to always."
	Remedy string
}

// String returns the three parts as one line.
func (r Risk) String() string { return r.Setting + ": " + r.Loses + " " + r.Remedy }

// Inspector is implemented by stores whose records can be read and listed, for support tools. It takes no part in
// claims.
type Inspector interface {
	// Inspect returns what is kept of a key, the newest record first: the one that takes part in claims, if there is
	// one, and ended ones until their Audit window has passed. A record that never ended is not returned once its Key
	// window has passed. If there are none, the slice is empty. A store that cannot decrypt content, or has lost a part
	// of it, returns the records without it, and an error that wraps ErrUnreadable.
	Inspect(ctx context.Context, d Digest) ([]Record, error)
	// List returns p.Limit of the records that Inspect would show, if there are so many, the newest first, without
	// Meta, Body and steps. If the store cannot read some of its records, such as those of a newer version, it returns the
	// others and an error that wraps ErrUnreadable; so do Walk, Find and Stats.
	List(ctx context.Context, p ListParams) ([]Record, error)
	// Stats counts the records.
	Stats(ctx context.Context) (Stats, error)
}

// FullScanner is implemented by Inspectors whose server may have no index for listings.
type FullScanner interface {
	// ScansFully reports whether List and Stats read every record. Then programs do not call them regularly, as for
	// metrics: it would cost more than the claims.
	ScansFully() bool
}

// Sizer is implemented by stores whose server knows how large they are, so that it need not read the records: those
// that are a [FullScanner].
type Sizer interface {
	// Size returns how many entries the server has for the store, and the bytes that they take. Its cost does not grow
	// with their number. Entries are what the server counts, such as keys, messages or items: at least one for each
	// record, expired ones that the server has not deleted yet included, and more for long answers. The numbers may be
	// estimates, and may be old; the method of each store says how exact they are.
	Size(ctx context.Context) (entries, bytes int64, err error)
}

// Walker is implemented by Inspectors whose List reads every record, so that a listing of all pages would cost the
// square of their number.
type Walker interface {
	// Walk calls visit for each record that List shows, in any order, until visit returns an error, which Walk returns. It
	// passes over the store once. A record that changes meanwhile, or did a moment before, may come twice, first as it was
	// before, or be missing.
	Walk(ctx context.Context, visit func(Record) error) error
}

// Walk calls visit for each record that in lists, until visit returns an error, which Walk returns: in one pass if in
// is a [Walker], and page by page otherwise.
func Walk(ctx context.Context, in Inspector, visit func(Record) error) error {
	if w, ok := As[Walker](in); ok {
		return w.Walk(ctx, visit)
	}
	var unread error // the first
	for p := (ListParams{Limit: 1000}); ; {
		page, err := in.List(ctx, p)
		switch {
		case errors.Is(err, ErrUnreadable):
			unread = cmp.Or(unread, err)
		case err != nil:
			return err
		}
		for _, r := range page {
			p.Before = r.FirstFence
			if err := visit(r); err != nil {
				return err
			}
		}
		if len(page) < p.Limit {
			return unread
		}
	}
}

// ListParams selects the records that [Inspector.List] returns.
type ListParams struct {
	// State selects records in this state; 0: in any.
	State State
	// Scope selects records of this scope; nil: of any.
	Scope *string
	// Before continues a listing: records whose FirstFence is below it. 0: from the newest on.
	Before int64
	// Limit is 1 to 1000; more counts as 1000. Default 100. Records whose FirstFence is that of the last one come with
	// it, so that Before can go on from there: the page may be some records longer.
	Limit int
}

// Stats counts what a store holds, records that have expired or were released without steps included, until a sweep
// removes them.
type Stats struct {
	// Pending, Released, Succeeded and Failed count records by state; Abandoned those of Pending whose lease ran out.
	Pending, Abandoned, Released, Succeeded, Failed int64
	// Bytes is the space that the store takes, in memory or on disk.
	Bytes int64
}
