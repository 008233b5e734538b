package main

import (
	"context"
	"io"
	"log/slog"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/proxy"
)

func newLogger(format string, w io.Writer) *slog.Logger {
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, nil))
	}
	return slog.New(slog.NewTextHandler(w, nil))
}

// logReport writes a line for each request with a key. The key appears as its digest only.
func logReport(log *slog.Logger) func(proxy.Report) {
	return func(r proxy.Report) {
		attrs := []slog.Attr{
			slog.String("method", r.Method),
			slog.String("route", r.Route),
			slog.Int("status", r.Status),
			slog.String("what", what(r)),
		}
		if r.Event != 0 {
			attrs = append(attrs, slog.String("key", r.Key.String()), slog.Int("attempt", r.Attempt))
		}
		attrs = append(attrs, slog.Duration("took", r.Took))
		if r.Err != nil {
			attrs = append(attrs, slog.String("error", r.Err.Error()))
		}
		log.LogAttrs(context.Background(), slog.LevelInfo, "request", attrs...)
	}
}

// what names what became of a request: the guard's event, or that it never got there.
func what(r proxy.Report) string {
	if r.Event == 0 {
		return "refused"
	}
	return r.Event.String()
}

// logTrouble writes of what no client's answer shows, or what somebody should look at.
func logTrouble(log *slog.Logger) retrysafe.Observer {
	return retrysafe.ObserverFunc(func(ctx context.Context, e retrysafe.Event) {
		switch e.Kind {
		case retrysafe.WorkUnknown, retrysafe.LeaseTaken, retrysafe.SaveFailed, retrysafe.SavedLate, retrysafe.SaveAbandoned,
			retrysafe.StoreFailed, retrysafe.RanUnprotected, retrysafe.FingerprintIncomparable:
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
		log.LogAttrs(ctx, slog.LevelWarn, "trouble", attrs...)
	})
}
