package keys

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/proxy"
)

// Resolve implements Keys. The record is the one from then on; with DryRun it is the one that is there. A key in flight
// can be released if its upstream completes it: the upstream's transaction cannot commit any more after that.
func (l Local) Resolve(ctx context.Context, d Decision) (Record, error) {
	digest, err := ParseDigest(d.Digest)
	if err != nil {
		return Record{}, err
	}
	r := retrysafe.Resolution{
		Action: d.Action, Reason: d.Reason, By: d.By, Fence: d.Fence, DryRun: d.DryRun,
		EndLease: func(r retrysafe.Record) bool { return proxy.IsCompletedUpstream(r.Fingerprint) },
	}
	if d.Answer != nil {
		if r.Result, err = d.Answer.result(); err != nil {
			return Record{}, err
		}
	}
	known, err := l.Guard.Resolve(ctx, digest, r)
	if err != nil {
		return Record{}, refusalOf(err, digest, d.Fence, known)
	}
	return detailed(known, false), nil
}

// result returns what is stored, or an Error about what cannot be.
func (a HTTPAnswer) result() (retrysafe.Result, error) {
	if a.Status < 200 || a.Status > 599 {
		return retrysafe.Result{}, &Error{
			Code:    CodeInvalid,
			Message: fmt.Sprintf("status %d: write the status of a final answer, 200 to 599", a.Status),
		}
	}
	header := http.Header{}
	for name, values := range a.Header {
		for _, value := range values {
			header.Add(name, value)
		}
	}
	result := httpsafe.NewResult(a.Status, header, a.Body)
	stored, _ := httpsafe.HeaderOf(result)
	for name := range header {
		if _, ok := stored[name]; !ok {
			return result, &Error{Code: CodeInvalid, Message: fmt.Sprintf("a header field %q cannot be stored", name)}
		}
	}
	return result, nil
}

// refusalOf turns an error about a key, which was selected with that fence, into an Error.
func refusalOf(err error, digest retrysafe.Digest, fence int64, known retrysafe.Record) error {
	e := &Error{Message: err.Error()}
	switch {
	case errors.Is(err, retrysafe.ErrInvalidResolution):
		e.Code = CodeInvalid
	case errors.Is(err, retrysafe.ErrKeyUnknown):
		return noKey(digest)
	case errors.Is(err, retrysafe.ErrNotEnded) && known.State.Ended(): // when it was read
		e.Code = CodeChanged
	case errors.Is(err, retrysafe.ErrNotEnded):
		e.Code = CodeNotEnded
		e.Message = fmt.Sprintf("key %s is %s: only the answer of a key that has ended can be purged; nothing was "+
			"changed", digest, stateOf(known))
	case !errors.Is(err, retrysafe.ErrNotAbandoned):
		return err
	case known.State == retrysafe.Pending && known.LeaseLeft > 0:
		e.Code, e.LeaseLeft = CodeInFlight, known.LeaseLeft.Seconds()
		_, why, _ := strings.Cut(err.Error(), retrysafe.ErrNotAbandoned.Error()+": ")
		e.Message = fmt.Sprintf("key %s is in flight: %s; wait until it has ended or is abandoned. Nothing was changed",
			digest, why)
	case known.State.Ended():
		e.Code = CodeEnded
		e.Message = fmt.Sprintf("key %s has ended already (%s): retries get its answer, and it cannot be resolved. "+
			"Nothing was changed", digest, known.State)
	case known.State == retrysafe.Released:
		e.Code = CodeReleased
		e.Message = fmt.Sprintf("key %s was released: the next retry of the same request runs the operation. Nothing "+
			"was changed", digest)
	default:
		e.Code = CodeChanged
	}
	if e.Code == CodeChanged && fence != 0 && fence != known.Fence {
		e.Message = fmt.Sprintf("key %s was used again since: it was selected with the fence %d and has %d, the fence of "+
			"another attempt or decision. Nothing was changed; list it again, or name its digest", digest, fence, known.Fence)
	}
	return e
}

func noKey(digest retrysafe.Digest) *Error {
	return &Error{
		Code: CodeNoKey,
		Message: fmt.Sprintf("the store has no record of key %s: it was never claimed in this store, or its "+
			"retention has ended", digest),
	}
}

// Purge implements Keys.
func (l Local) Purge(ctx context.Context, d Decision) (Purged, error) {
	digest, err := ParseDigest(d.Digest)
	if err != nil {
		return Purged{}, err
	}
	records, err := l.kept(ctx, digest)
	isLost := isPartly(records, err)
	if err != nil && !isLost {
		return Purged{}, err
	}
	bytes := storedBytes(records)
	if len(records) > 0 && records[0].State.Ended() && bytes == 0 && !isLost { // without another line in its trail
		return Purged{}, nil
	}
	known, err := l.Guard.Purge(ctx, digest, retrysafe.Purge{Reason: d.Reason, By: d.By, Fence: d.Fence, DryRun: d.DryRun})
	if err != nil {
		return Purged{}, refusalOf(err, digest, d.Fence, known)
	}
	return Purged{Bytes: bytes, Lost: isLost}, nil
}

// Reopen implements Keys. The record is the one from then on; with DryRun it is the one that is there.
func (l Local) Reopen(ctx context.Context, d Decision) (Record, error) {
	digest, err := ParseDigest(d.Digest)
	if err != nil {
		return Record{}, err
	}
	known, err := l.Guard.Reopen(ctx, digest, retrysafe.Reopening{
		Reason: d.Reason, By: d.By, Fence: d.Fence, DryRun: d.DryRun,
	})
	if err != nil {
		return Record{}, notReopened(err, digest, d.Fence, known)
	}
	return detailed(known, false), nil
}

// notReopened says why, and what to do instead.
func notReopened(err error, digest retrysafe.Digest, fence int64, known retrysafe.Record) error {
	e := &Error{Code: CodeNotEnded}
	switch state := stateOf(known); {
	case errors.Is(err, retrysafe.ErrKeyUnknown) && known.State.Ended() && known.KeyLeft == 0:
		e.Code = CodeNoKey
		e.Message = "is free already: its retention has ended, and the next request with it runs as if it were new"
	case !errors.Is(err, retrysafe.ErrNotEnded) || known.State.Ended():
		return refusalOf(err, digest, fence, known)
	case state == InFlight:
		e.Code, e.LeaseLeft = CodeInFlight, known.LeaseLeft.Seconds()
		e.Message = "is in flight: wait until it has ended"
	case state == Released, state == Uncommitted:
		e.Message = "is " + state + ": the next retry of the same request runs the operation anyway"
	default:
		e.Message = "is abandoned: it is not known whether it ran. Find out, then decide with keys resolve"
	}
	e.Message = fmt.Sprintf("key %s %s. Nothing was changed", digest, e.Message)
	return e
}

// storedBytes is how much a purge deletes.
func storedBytes(records []retrysafe.Record) int {
	n := 0
	for _, r := range records {
		n += len(r.Result.Meta) + len(r.Result.Body)
		for _, s := range r.WithoutTrail().Steps {
			n += len(s.Data)
		}
	}
	return n
}
