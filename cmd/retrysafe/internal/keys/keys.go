// Package keys is what operators can do with the keys of a store: list them, look at one, resolve those whose outcome
// is unknown, purge stored answers, and reopen what is to run again. It has the command retrysafe keys, and what a
// proxy serves for it.
//
// Local does this in the process that has the store open. Remote sends requests to that process over a Unix domain
// socket, because only one process at a time can open a SQLite file. Listen listens beside the file; only the user
// who runs that process, and root, may connect.
//
//	keys.go     the interface Keys, and its values
//	local.go    Local: Show, and what it shows; search.go: List; local_resolve.go: Resolve, Purge and Reopen;
//	            measure.go: Measure
//	wire.go     Remote, and the Handler that it talks to
//	socket.go   the socket beside the file
//	command.go  the command: it opens the store, or connects to the proxy that has its file open. list.go, find.go,
//	            show.go, resolve.go, purge.go and reopen.go have a command each; timeline.go is how show tells the story of
//	            a key. bulk.go: many keys in one call
package keys

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Keys is implemented by Local and Remote. Errors that say something about a key or about the arguments are *Error.
type Keys interface {
	// List returns one page of records, the newest first.
	List(ctx context.Context, q Query) (Page, error)
	// Show returns every record of a key, the newest first.
	Show(ctx context.Context, l Look) ([]Record, error)
	// Resolve ends an abandoned key as an operator has decided.
	Resolve(ctx context.Context, d Decision) (Record, error)
	// Purge deletes the stored answer of a key that has ended.
	Purge(ctx context.Context, d Decision) (Purged, error)
	// Reopen makes the operation of a key that has ended run again at its next retry.
	Reopen(ctx context.Context, d Decision) (Record, error)
	// Measure counts the records, and returns how old the unfinished keys are.
	Measure(ctx context.Context, how Measure) (Measured, error)
}

// States of a record as operators see it. A pending record is in flight, or its lease has run out: then it is
// abandoned, or, if the service behind the proxy completes such keys in its own transaction, uncommitted. The retry of
// an uncommitted key runs the operation, so that no operator has to decide.
const (
	Abandoned   = "abandoned"
	Uncommitted = "uncommitted"
	InFlight    = "in-flight"
	Released    = "released"
	Succeeded   = "succeeded"
	Failed      = "failed"
	All         = "all" // only in a Query
)

// States are those of records, in the order in which they are shown.
func States() []string {
	return []string{Abandoned, Uncommitted, InFlight, Released, Succeeded, Failed}
}

// Query selects records.
type Query struct {
	// State is one of the constants above.
	State string `json:"state"`
	// Scope selects records of this scope; nil: of any.
	Scope *string `json:"scope,omitempty"`
	// MinAge selects records that were first claimed at least this long ago.
	MinAge time.Duration `json:"min_age,omitempty"`
	// Before continues a listing: it is the Next of the page before. 0: from the newest on.
	Before int64 `json:"before,omitempty"`
	// Count asks for Page.Counts.
	Count bool `json:"count,omitempty"`

	// Digest selects the records of one key, in one of the forms of ParseDigest; "": of any.
	Digest string `json:"digest,omitempty"`
	// ID selects records by the key that the client sent; "": by any.
	ID string `json:"id,omitempty"`
	// Tag selects records that have this tag, in the form name=value; "": any.
	Tag string `json:"tag,omitempty"`
	// ScopePrefix selects records whose scope begins with it.
	ScopePrefix string `json:"scope_prefix,omitempty"`
	// MaxAge selects records that were first claimed at most this long ago; 0: any.
	MaxAge time.Duration `json:"max_age,omitempty"`
	// Sightings asks for Record.Sightings, which takes another call of the store for each record.
	Sightings bool `json:"sightings,omitempty"`
	// Limit is how many records a page has at most, 1 to 1000; 0 is 1000.
	Limit int `json:"limit,omitempty"`
}

// selectors are the fields that select records and that the first version of Query did not have, by their names in
// JSON.
func (q Query) selectors() (names []string) {
	for name, isSet := range map[string]bool{
		"digest": q.Digest != "", "id": q.ID != "", "tag": q.Tag != "", "scope_prefix": q.ScopePrefix != "",
		"max_age": q.MaxAge != 0,
	} {
		if isSet {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Page is a part of a listing. It may be empty and still have a Next.
type Page struct {
	Keys []Record `json:"keys"`
	// Next is the Before of the next page; 0: this is the last one.
	Next int64 `json:"next,omitempty"`
	// Counts are the numbers of records in the whole store, by state, without those that it cannot read. nil: Uncounted
	// says why the store did not count them, as in the time that it has for it.
	Counts    map[string]int64 `json:"counts,omitempty"`
	Uncounted string           `json:"uncounted,omitempty"`
	// SelectedBy are the selectors that the answering process knows. One of an older version ignores those that it does
	// not know, and would answer with records that were not asked for.
	SelectedBy []string `json:"selected_by,omitempty"`
	// Read is how many records were read to find these; 0: the store has an index for it.
	Read int `json:"read,omitempty"`
	// Unread says which records were left out because the store cannot read them; "": none.
	Unread string `json:"unread,omitempty"`
}

// Look names the key to show.
type Look struct {
	// Key is a digest, in one of the forms of ParseDigest, or else the key that the client sent.
	Key string `json:"key"`
	// Scope is that of the client's key; nil: it is searched for in all scopes.
	Scope *string `json:"scope,omitempty"`
	// Answer asks for the stored answer itself, and not only for its size.
	Answer bool `json:"answer,omitempty"`
}

// Decision is what an operator has decided about a key, and why. Purge and Reopen look at neither Action nor Answer.
type Decision struct {
	Digest string                  `json:"digest"`
	Action retrysafe.ResolveAction `json:"action,omitempty"`
	// Answer is what every retry gets from now on, with ResolveComplete.
	Answer *HTTPAnswer `json:"answer,omitempty"`
	Reason string      `json:"reason"`
	By     string      `json:"by"`
	DryRun bool        `json:"dry_run,omitempty"`
	// Fence is that of the record that was selected: a key that was claimed again since is left as it is. 0: the newest
	// record is meant, whatever its fence.
	Fence int64 `json:"fence,omitempty"`
}

// HTTPAnswer is an answer that is stored by hand.
type HTTPAnswer struct {
	Status int         `json:"status"`
	Header http.Header `json:"header,omitempty"`
	Body   []byte      `json:"body_base64"`
}

// Purged says what was deleted.
type Purged struct {
	// Bytes of the answers and steps that were dropped; 0: nothing was stored, and nothing was done, unless Lost is set.
	Bytes int `json:"bytes"`
	// Lost says that the answer or a step could not be read any more. How long they were is not known.
	Lost bool `json:"lost,omitempty"`
}

// Record is the record of a key. It never holds the key itself, which is the caller's secret: the digest identifies
// it. Durations are in seconds.
type Record struct {
	Digest  string `json:"digest"`
	Scope   string `json:"scope"`
	State   string `json:"state"`
	Attempt int    `json:"attempt"`
	Fence   int64  `json:"fence"`
	// FirstFence is that of the first claim, and distinguishes the records of one key.
	FirstFence int64 `json:"first_fence,omitempty"`
	// Tags are those by which people find the key.
	Tags map[string]string `json:"tags,omitempty"`
	// UpstreamKey is the key that the upstream of a proxy got with the request; empty if the record does not say, or if this
	// process lacks the secret that the key was made with. Set by Show and List only.
	UpstreamKey string `json:"upstream_key,omitempty"`
	// Age counts from the first claim, Ended from the end or the release (0 while it is pending).
	Age   float64 `json:"age_seconds"`
	Ended float64 `json:"ended_seconds,omitempty"`
	// LeaseLeft is set while it is in flight; the others count once the attempt has ended or is abandoned.
	LeaseLeft  float64 `json:"lease_left_seconds,omitempty"`
	ReplayLeft float64 `json:"replay_left_seconds,omitempty"`
	KeyLeft    float64 `json:"key_left_seconds,omitempty"`
	AuditLeft  float64 `json:"audit_left_seconds,omitempty"`
	// Fingerprint is the name of the algorithm that requests are compared by. The digest behind it is left out:
	// without a secret it would let a reader guess a request of few possible values.
	Fingerprint string `json:"fingerprint,omitempty"`
	// CompletedUpstream: the service completes the key in its own transaction (complete: upstream).
	CompletedUpstream bool `json:"completed_upstream,omitempty"`
	// Unread says why a part of the content is left out, such as an answer that is lost; "": nothing is. Set by Show only.
	Unread string `json:"unread,omitempty"`
	// Steps and Answer are set by Show only.
	Steps  []Step  `json:"steps,omitempty"`
	Answer *Answer `json:"answer,omitempty"`
	// Trail is what operators have decided about the key, the oldest decision first. Set by Show and Resolve only.
	Trail []retrysafe.AuditEntry `json:"trail,omitempty"`
	// Sightings count the requests that found the record. Set by Show, and by List if it was asked for them.
	Sightings []Sighting `json:"sightings,omitempty"`
}

// Sighting counts the requests of one kind that found a record. Durations are in seconds.
type Sighting struct {
	// Kind is the name of a retrysafe.SightingKind, with "_" for each space.
	Kind  string `json:"kind"`
	Count int64  `json:"count"`
	// First and Last are how long ago the first and the last of them came.
	First float64 `json:"first_seconds"`
	Last  float64 `json:"last_seconds"`
	// Code is that of the answer that the last one got; 0: it got none.
	Code int `json:"code,omitempty"`
}

// Step is a saved step of the work.
type Step struct {
	Name  string `json:"name"`
	Bytes int    `json:"bytes"`
}

// Answer is how the work ended.
type Answer struct {
	Code int `json:"code"`
	// Closed: an operator has decided that the operation did not run and will not run under this key. There is no code.
	Closed bool `json:"closed,omitempty"`
	// Omitted: the work has run, and its answer was not kept.
	Omitted bool `json:"omitted,omitempty"`
	Bytes   int  `json:"bytes"`
	// Header, Meta and Body are there if they were asked for: Header of an HTTP answer, otherwise the bytes of Meta.
	Header map[string][]string `json:"header,omitempty"`
	Meta   []byte              `json:"meta_base64,omitempty"`
	Body   []byte              `json:"body_base64,omitempty"`
}

// Codes of Error.
const (
	CodeInvalid  = "invalid"      // the arguments are wrong
	CodeNoKey    = "no-such-key"  // the store has no record of the key
	CodeInFlight = "in-flight"    // an attempt is working on the key
	CodeEnded    = "ended"        // the key has an answer already
	CodeReleased = "released"     // the key is free for the same request
	CodeNotEnded = "not-ended"    // the key has no answer that could be purged or reopened
	CodeChanged  = "changed"      // another attempt or operator changed the key first
	codeTooMany  = "too-many"     // more keys are selected than the operator expects
	codeFailed   = "store-failed" // anything else
)

// Error is returned when an operation is refused. Nothing was changed.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	// LeaseLeft is how long the lease of a key in flight still runs, in seconds.
	LeaseLeft float64 `json:"lease_left_seconds,omitempty"`
}

func (e *Error) Error() string { return e.Message }
