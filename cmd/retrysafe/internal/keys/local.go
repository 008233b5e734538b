package keys

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/proxy"
	"github.com/retrysafe/retrysafe/stores/cryptstore"
)

// Local works on a store that this process has open.
type Local struct {
	Store retrysafe.Inspector
	Guard *retrysafe.Guard
	// Progress is told now and then how many records a search has read in a store that has no index for it. Optional.
	Progress func(read int)
}

const (
	pageSize      = 1000
	countPatience = 2 * time.Second
)

// count returns an error if the store cannot say in time. What the store cannot read is not counted: then the error
// wraps retrysafe.ErrUnreadable, and comes beside the numbers.
func (l Local) count(ctx context.Context) (map[string]int64, error) {
	ctx, stop := context.WithTimeout(ctx, countPatience)
	defer stop()
	s, err := l.Store.Stats(ctx)
	unknown := int64(0)
	if s.Abandoned > 0 && (err == nil || errors.Is(err, retrysafe.ErrUnreadable)) {
		unknown, err = Unknown(ctx, l.Store)
	}
	if err != nil && !errors.Is(err, retrysafe.ErrUnreadable) {
		return nil, err
	}
	return byState(s, unknown), err
}

// byState returns the number of records by state, if the outcome of so many abandoned ones is unknown.
func byState(s retrysafe.Stats, unknown int64) map[string]int64 {
	unknown = min(unknown, s.Abandoned)
	return map[string]int64{
		Abandoned: unknown, Uncommitted: s.Abandoned - unknown, InFlight: s.Pending - s.Abandoned, Released: s.Released,
		Succeeded: s.Succeeded, Failed: s.Failed,
	}
}

// Unknown counts the abandoned keys of a store, without the uncommitted ones, which Stats counts too. It lists the
// pending records, so call it only if Stats has found abandoned ones.
func Unknown(ctx context.Context, store retrysafe.Inspector) (n int64, err error) {
	u, err := CountUnfinished(ctx, store, 0)
	return u.Unknown, err
}

// Unfinished are the numbers of pending records: of those whose lease ran out, and of those in flight.
type Unfinished struct{ Unknown, Uncommitted, InFlight int64 }

// CountUnfinished counts the pending records of a store, without those whose FirstFence is the fence before or a later
// one; 0 counts all. It lists them, which takes far less time than Stats if few of many records are pending. If the
// store cannot read all of them, it counts the others, and returns an error that wraps retrysafe.ErrUnreadable.
func CountUnfinished(ctx context.Context, store retrysafe.Inspector, before int64) (u Unfinished, err error) {
	var unread error
	for p := (retrysafe.ListParams{State: retrysafe.Pending, Before: before, Limit: pageSize}); ; {
		found, err := store.List(ctx, p)
		switch {
		case errors.Is(err, retrysafe.ErrUnreadable):
			unread = err
		case err != nil:
			return u, err
		}
		for _, r := range found {
			p.Before = r.FirstFence
			switch {
			case r.LeaseLeft > 0:
				u.InFlight++
			case IsUnknown(r):
				u.Unknown++
			default:
				u.Uncommitted++
			}
		}
		if len(found) < pageSize {
			return u, unread
		}
	}
}

// IsUnknown reports whether a record is abandoned and its outcome is unknown: it is neither uncommitted nor one of
// observe mode.
func IsUnknown(r retrysafe.Record) bool {
	return stateOf(r) == Abandoned && !httpsafe.IsObservedScope(r.Key.Scope)
}

// Show implements Keys.
func (l Local) Show(ctx context.Context, look Look) ([]Record, error) {
	found, err := l.find(ctx, look)
	unread := ""
	switch {
	case !look.Answer && isPartly(found, err):
		unread = err.Error()
	case err != nil:
		return nil, err
	}
	records := make([]Record, len(found))
	if look.Answer && slices.ContainsFunc(found, isSealed) {
		return nil, &Error{
			Code: CodeInvalid, Message: "the answer is encrypted: name the keyset with --encryption FILE",
		}
	}
	for i, r := range found {
		records[i] = l.withUpstreamKey(detailed(r, look.Answer), r)
		records[i].Unread = unread
	}
	return records, nil
}

// isPartly reports whether a store has returned records of a key without all of their content, such as an answer of
// which a part is lost.
func isPartly(found []retrysafe.Record, err error) bool {
	return errors.Is(err, retrysafe.ErrUnreadable) && len(found) > 0
}

// isSealed reports whether an answer is encrypted, which is then read without the keys.
func isSealed(r retrysafe.Record) bool {
	return cryptstore.IsSealed(r.Result.Meta) || cryptstore.IsSealed(r.Result.Body)
}

// find returns the records of a key. A client's key may look like a digest: many are UUIDs.
func (l Local) find(ctx context.Context, look Look) ([]retrysafe.Record, error) {
	read := l.kept
	if look.Answer {
		read = l.Store.Inspect
	}
	if look.Scope != nil {
		return inspect(ctx, read, retrysafe.Key{Scope: *look.Scope, ID: look.Key}.Digest())
	}
	if digest, err := ParseDigest(look.Key); err == nil {
		if found, err := read(ctx, digest); err != nil || len(found) > 0 {
			return found, err
		}
	}
	digest, err := l.search(ctx, look.Key)
	if err != nil {
		return nil, err
	}
	return inspect(ctx, read, digest)
}

// inspect returns the records of a key, of which there is one at least.
func inspect(
	ctx context.Context, read func(context.Context, retrysafe.Digest) ([]retrysafe.Record, error), digest retrysafe.Digest,
) ([]retrysafe.Record, error) {
	found, err := read(ctx, digest)
	if err == nil && len(found) == 0 {
		err = noSuchKey()
	}
	return found, err
}

// kept returns the records of a key for what needs no content. If the store cannot decrypt that, because the keyset lacks
// a key for instance, it is the content as the store inside of it keeps it: such an answer can still be purged, and one of
// them must not keep the other keys of a listing from being shown. Content that is lost stays out, and the error comes
// beside the records: see isPartly.
func (l Local) kept(ctx context.Context, digest retrysafe.Digest) ([]retrysafe.Record, error) {
	found, err := l.Store.Inspect(ctx, digest)
	for s := any(l.Store); errors.Is(err, retrysafe.ErrUnreadable); {
		wrapper, wraps := s.(interface{ Unwrap() retrysafe.Store })
		if !wraps {
			break
		}
		s = wrapper.Unwrap()
		if inner, ok := s.(retrysafe.Inspector); ok {
			found, err = inner.Inspect(ctx, digest)
		}
	}
	return found, err
}

// search finds the digest of a key that clients have sent.
func (l Local) search(ctx context.Context, id string) (retrysafe.Digest, error) {
	owners := map[retrysafe.Digest]string{}
	_, err := l.each(ctx, retrysafe.FindParams{ID: id}, func(r retrysafe.Record) error {
		owners[r.Key.Digest()] = r.Key.Scope
		return nil
	})
	if err != nil && (len(owners) == 0 || !errors.Is(err, retrysafe.ErrUnreadable)) {
		return retrysafe.Digest{}, err
	}
	if len(owners) > 1 {
		return retrysafe.Digest{}, &Error{
			Code: CodeInvalid,
			Message: fmt.Sprintf("%d callers have used this key; name one with --scope: %q", len(owners),
				slices.Sorted(maps.Values(owners))),
		}
	}
	for digest := range owners {
		return digest, nil
	}
	return retrysafe.Digest{}, noSuchKey()
}

// noSuchKey does not repeat the key, which is a secret of the client.
func noSuchKey() error {
	return &Error{
		Code: CodeNoKey,
		Message: "the store has no record of this key, neither as a digest nor as a client's key: it was never claimed in " +
			"this store, or its retention has ended",
	}
}

// digestURN begins the instance of a refusal, which names a key by its digest.
const digestURN = "urn:retrysafe:key:"

// keyPage comes before the digest in the URL of a key's page.
const keyPage = "/keys/"

// ParseDigest reads a digest as logs print it, as "instance" of a refusal has it (urn:retrysafe:key:…, or the URL of
// the key's page), or with the dashes that PostgreSQL puts into it.
func ParseDigest(text string) (retrysafe.Digest, error) {
	if page := strings.LastIndex(text, keyPage); page >= 0 {
		text = text[page+len(keyPage):]
	}
	hex := strings.ReplaceAll(strings.TrimPrefix(text, digestURN), "-", "")
	d, err := retrysafe.ParseDigest(hex)
	if err != nil { // the text is left out: it may be a key
		return d, &Error{
			Code: CodeInvalid,
			Message: "not the digest of a key: write the 32 hex digits that the log has as key=… and a refusal " +
				"as instance, not the Idempotency-Key itself; retrysafe keys show finds it by that",
		}
	}
	return d, nil
}

// storedStates are the states in which a store has the records of a Query.State; 0 is any.
var storedStates = map[string]retrysafe.State{
	All: 0, Abandoned: retrysafe.Pending, Uncommitted: retrysafe.Pending, InFlight: retrysafe.Pending,
	Released: retrysafe.Released, Succeeded: retrysafe.Succeeded, Failed: retrysafe.Failed,
}

func stateOf(r retrysafe.Record) string {
	switch {
	case r.State == retrysafe.Pending && r.LeaseLeft > 0:
		return InFlight
	case r.State == retrysafe.Pending && proxy.IsCompletedUpstream(r.Fingerprint):
		return Uncommitted
	case r.State == retrysafe.Pending:
		return Abandoned
	}
	return r.State.String()
}

// summary is a record as List shows it.
func summary(r retrysafe.Record) Record {
	algorithm, _, _ := strings.Cut(string(r.Fingerprint), ":")
	return Record{
		Digest: r.Key.Digest().String(), Scope: r.Key.Scope, State: stateOf(r), Attempt: r.Attempt, Fence: r.Fence,
		Age: r.Age.Seconds(), Ended: r.EndedAge.Seconds(), LeaseLeft: r.LeaseLeft.Seconds(),
		ReplayLeft: r.ReplayLeft.Seconds(), KeyLeft: r.KeyLeft.Seconds(), AuditLeft: r.AuditLeft.Seconds(),
		Fingerprint: algorithm, CompletedUpstream: proxy.IsCompletedUpstream(r.Fingerprint), FirstFence: r.FirstFence,
		Tags: tagsOf(r), Sightings: sightingsOf(r),
	}
}

// withUpstreamKey adds the key that the upstream got. The process must have the secret that it was made with.
func (l Local) withUpstreamKey(shown Record, r retrysafe.Record) Record {
	shown.UpstreamKey, _ = proxy.SentUpstreamKey(l.Guard, r)
	return shown
}

func tagsOf(r retrysafe.Record) map[string]string {
	tags := maps.Collect(r.Tags.All())
	if len(tags) == 0 {
		return nil
	}
	return tags
}

func sightingsOf(r retrysafe.Record) (all []Sighting) {
	for _, s := range r.Sightings {
		all = append(all, Sighting{
			strings.ReplaceAll(s.Kind.String(), " ", "_"), s.Count, s.First.Seconds(), s.Last.Seconds(), s.Code,
		})
	}
	return all
}

// detailed is a record as Show shows it.
func detailed(r retrysafe.Record, withAnswer bool) Record {
	shown := summary(r)
	shown.Trail = r.Trail()
	for _, s := range r.WithoutTrail().Steps {
		shown.Steps = append(shown.Steps, Step{s.Name, len(s.Data)})
	}
	if r.State.Ended() {
		shown.Answer = answerOf(r.Result, withAnswer)
	}
	return shown
}

func answerOf(r retrysafe.Result, whole bool) *Answer {
	a := &Answer{Code: r.Code, Omitted: r.Omitted, Bytes: len(r.Body)}
	if f := r.Failure(); f != nil && f.Resolved {
		a.Code, a.Closed = 0, true
	}
	if !whole {
		return a
	}
	a.Body = slices.Clone(r.Body)
	if header, ok := httpsafe.HeaderOf(r); ok {
		a.Header = header
	} else {
		a.Meta = slices.Clone(r.Meta)
	}
	return a
}

// NewLocal returns the keys of a store that this process has open. The observer, which may be nil, is told of
// decisions.
func NewLocal(store retrysafe.Store, observer retrysafe.Observer) Keys {
	return Local{
		Store: store.(retrysafe.Inspector), // each store of this command is one
		Guard: retrysafe.New(store, retrysafe.Options{Observer: observer}),
	}
}
