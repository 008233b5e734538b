package retrysafe

import (
	"context"
	"errors"
)

// ExplainKey says what became of the requests with a key, and what the same request gets if it is sent again. It is for
// clients that ask without sending the request: it reads the record, and claims, extends and changes nothing. Like Do it
// may be given a context that does not end, because [Options.StoreTimeout] bounds it.
//
// The Situation is
//
//   - [SituationKeyNotFound], if the store has no record of the key
//   - [SituationInFlight], [SituationReleased] or [SituationOutcomeUnknown], if no attempt has ended with a result
//   - [SituationUnsaved], if one has, and this process has not been able to save the result so far
//   - [SituationProcessed], [SituationFailed] or [SituationClosed], if a retry gets how the work ended
//   - [SituationNotReplayable], if the work has ended and its answer is not kept
//   - [SituationStoreUnavailable], if the store fails, and [SituationNotSupported], if it is no [Inspector]
//
// Advice.Record is the record that was read, with its result.
func (g *Guard) ExplainKey(ctx context.Context, d Digest) Advice {
	for again := false; ; again = true {
		known, err := g.newest(ctx, d)
		switch {
		case errors.Is(err, ErrKeyUnknown):
			return SituationKeyNotFound.Advice()
		case errors.Is(err, errors.ErrUnsupported):
			return SituationNotSupported.Advice()
		case err != nil:
			return SituationStoreUnavailable.Advice()
		}
		s := recordSituation(known)
		if end := unsavedEndOf(g.unsaved.check(known.Key)); end != nil && !known.State.Ended() {
			s = end.situation()
		} else if s == SituationOutcomeUnknown && !again { // an end may have been saved since the record was read
			continue
		}
		return g.adviceFor(s, known.WithoutTrail())
	}
}

// recordSituation returns the situation of a request that finds this record.
func recordSituation(known Record) Situation {
	switch {
	case known.State == Pending && known.LeaseLeft > 0:
		return SituationInFlight
	case known.State == Pending:
		return SituationOutcomeUnknown
	case known.State == Released:
		return SituationReleased
	case known.Result.isResolvedFailure():
		return SituationClosed
	case known.ReplayLeft <= 0 || known.Result.Omitted && !known.Result.Failed:
		return SituationNotReplayable
	case known.Result.Failed:
		return SituationFailed
	}
	return SituationProcessed
}

// situation returns that of a request while the end waits to be saved. An end without a result frees the key or leaves
// its outcome unknown: until that is saved, nothing can be said.
func (e *unsavedEnd) situation() Situation {
	if e.result == nil {
		return SituationInFlight
	}
	return SituationUnsaved
}
