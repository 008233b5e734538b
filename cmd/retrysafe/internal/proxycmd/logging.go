package proxycmd

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/keys"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/store"
	"github.com/retrysafe/retrysafe/proxy"
)

func newLogger(format string, w io.Writer) *slog.Logger {
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, nil))
	}
	return slog.New(slog.NewTextHandler(w, nil))
}

// logRequests writes a line when a request with a key is forwarded, which is the only one if the process is killed, and
// a line when it was answered. The key appears as its digest only, with the URL of its page, if there is one.
func logRequests(log *slog.Logger, do slog.Attr, pageOf func(digest string) string) proxy.ObserverFunc {
	return func(ctx context.Context, r proxy.Event) {
		if r.Begun {
			log.LogAttrs(ctx, slog.LevelInfo, "forwarded", slog.String("method", r.Method), slog.String("path", r.Path),
				slog.String("route", r.Route), slog.String("key", r.Key.String()), slog.Int("attempt", r.Attempt))
			return
		}
		attrs := []slog.Attr{
			slog.String("method", r.Method),
			slog.String("path", r.Path),
			slog.String("route", r.Route),
			slog.Int("status", r.Status),
			slog.String("what", what(r)),
		}
		switch {
		case r.Kind != 0:
			attrs = append(attrs, slog.String("key", r.Key.String()), slog.Int("attempt", r.Attempt))
		case r.Accepted:
			attrs = append(attrs, slog.String("key", r.Key.String()))
		}
		if r.Refusal != "" {
			attrs = append(attrs, slog.String("problem", string(r.Refusal)))
		}
		attrs = append(attrs, slog.Duration("took", r.Took))
		if r.Err != nil {
			attrs = append(attrs, slog.String("error", r.Err.Error()))
		}
		level := slog.LevelInfo
		if isOutcomeUnknown(r.Kind) {
			level, attrs = slog.LevelWarn, append(attrs, do)
		}
		if page := pageOf(r.Key.String()); (r.Kind != 0 || r.Accepted) && page != "" {
			attrs = append(attrs, slog.String("page", page))
		}
		log.LogAttrs(ctx, level, "request", attrs...)
	}
}

// what names the outcome of a request: the event of the guard, or "refused" if the request did not get that far.
func what(r proxy.Event) string {
	switch {
	case r.Known:
		return "known"
	case r.Accepted:
		return "accepted"
	case r.Kind == 0:
		return "refused"
	}
	return r.Kind.String()
}

// logTrouble logs what no response shows: trouble, and the decisions of operators about keys.
func logTrouble(log *slog.Logger, do slog.Attr, pageOf func(digest string) string) retrysafe.Observer {
	return retrysafe.ObserverFunc(func(ctx context.Context, e retrysafe.Event) {
		level, message := slog.LevelWarn, "trouble"
		switch e.Kind {
		case retrysafe.KeyResolved, retrysafe.KeyPurged, retrysafe.KeyReopened:
			level, message = slog.LevelInfo, "decision"
		case retrysafe.WorkUnknown, retrysafe.LeaseTaken, retrysafe.SaveFailed, retrysafe.SavedLate, retrysafe.SaveAbandoned,
			retrysafe.CompletionMissing, retrysafe.AnswerDiscarded, retrysafe.StoreFailed, retrysafe.RanUnprotected,
			retrysafe.FingerprintIncomparable:
		case retrysafe.SweepEnded:
			if e.Err == nil {
				return
			}
		default:
			return
		}
		attrs := []slog.Attr{slog.String("what", e.Kind.String())}
		if e.Key.ID != "" {
			attrs = append(attrs, slog.String("key", e.Key.String()), slog.Int("attempt", e.Attempt))
		}
		if e.Err != nil {
			attrs = append(attrs, slog.String("error", e.Err.Error()))
		}
		if page := pageOf(e.Key.String()); e.Key.ID != "" && page != "" {
			attrs = append(attrs, slog.String("page", page))
		}
		switch {
		case isOutcomeUnknown(e.Kind):
			attrs = append(attrs, do)
		case e.Kind == retrysafe.CompletionMissing:
			attrs = append(attrs, slog.String("do", "let the upstream call retrysafe.complete, with the header Retrysafe-Lease, "+
				"in the transaction of its own writes: "+exactlyOncePage))
		case e.Kind == retrysafe.AnswerDiscarded:
			attrs = append(attrs, slog.String("do", "let the upstream answer after COMMIT with what it has committed: clients "+
				"get that, and not its error: "+exactlyOncePage))
		}
		log.LogAttrs(ctx, level, message, attrs...)
	})
}

// exactlyOncePage describes how a service completes its keys.
const exactlyOncePage = "https://github.com/retrysafe/retrysafe/blob/main/docs/exactly-once.md"

// outcomeUnknownPage describes what to do about keys whose outcome is unknown.
const outcomeUnknownPage = "https://github.com/retrysafe/retrysafe/blob/main/docs/outcome-unknown.md"

// whatToDo is the advice for keys whose outcome is unknown.
func whatToDo(store store.Ref) slog.Attr {
	text := "find out at the upstream whether the operation ran"
	if name := store.Name; !store.Memory { // a store in memory cannot be reached by another process
		if path, err := filepath.Abs(store.Path); err == nil && store.Path != "" {
			name = path // the reader is in another directory
		}
		text += ", then resolve the key; list such keys with: retrysafe keys list --store '" + name + "'"
	}
	return slog.String("do", text+": "+outcomeUnknownPage)
}

// isOutcomeUnknown reports whether an event is about a key whose operation may or may not have run.
func isOutcomeUnknown(k retrysafe.EventKind) bool {
	return k == retrysafe.WorkUnknown || k == retrysafe.SaveAbandoned || k == retrysafe.AbandonedRefused
}

// indexed returns the Inspector of a store, unless it reads every record to count them: the start of a proxy is not
// worth that.
func indexed(store retrysafe.Store) (retrysafe.Inspector, bool) {
	if scanner, ok := store.(retrysafe.FullScanner); ok && scanner.ScansFully() {
		return nil, false
	}
	inspector, ok := store.(retrysafe.Inspector)
	return inspector, ok
}

// startTimeout bounds how long each look at the store may take when the proxy starts.
const startTimeout = 2 * time.Second

// logRisks warns of settings of the store's server that can lose claims.
func logRisks(ctx context.Context, log *slog.Logger, store retrysafe.Store) {
	reporter, ok := store.(retrysafe.RiskReporter)
	if !ok {
		return
	}
	ctx, stop := context.WithTimeout(ctx, startTimeout)
	defer stop()
	risks, err := reporter.Risks(ctx)
	if err != nil && !errors.Is(err, context.Canceled) {
		log.Warn("the settings of the store could not be read: they may lose keys in a crash", "error", err)
	}
	for _, r := range risks {
		log.Warn("the store can lose keys", "setting", r.Setting, "loses", r.Loses, "instead", r.Remedy)
	}
}

// unfinished returns a function that counts the keys which killed processes have left unfinished, and logs the numbers.
// In a store that only this process uses, keys with a running lease are left over too; in a shared store, another
// process may be working on them.
//
// Requests need not wait for the function, which takes longer than the rest of the start if the store is large: it
// leaves out keys that were claimed after this call.
func unfinished(ctx context.Context, log *slog.Logger, store retrysafe.Store, ref store.Ref) (count func()) {
	inspector, ok := indexed(store)
	if !ok {
		return func() {}
	}
	failed := func(err error) {
		if !errors.Is(err, context.Canceled) {
			log.Info("keys whose outcome is unknown were not counted", "error", err)
		}
	}
	next := int64(0) // a fence that no key of the store has yet
	if ref.Place == nil {
		ctx, stop := context.WithTimeout(ctx, startTimeout)
		defer stop()
		newest, err := inspector.List(ctx, retrysafe.ListParams{Limit: 1})
		switch {
		case err != nil:
			failed(err)
			return func() {}
		case len(newest) == 0:
			return func() {}
		}
		next = newest[0].FirstFence + 1
	}
	return func() {
		ctx, stop := context.WithTimeout(ctx, startTimeout)
		defer stop()
		left, err := keys.CountUnfinished(ctx, inspector, next)
		switch {
		case err != nil:
			failed(err)
		case left.Unknown > 0 || left.Uncommitted > 0 || left.InFlight > 0 && ref.Place == nil:
			why := "the proxy or the upstream ended while it worked on them; for those in flight, retries get 409 until their " +
				"lease ends"
			if left.Uncommitted > 0 {
				why += "; uncommitted ones are no unknown outcomes, because their service has committed nothing and their next " +
					"retry runs the operation"
			}
			log.Warn("unfinished keys", "outcome_unknown", left.Unknown, "uncommitted", left.Uncommitted,
				"in_flight", left.InFlight, "why", why, whatToDo(ref))
		}
	}
}
