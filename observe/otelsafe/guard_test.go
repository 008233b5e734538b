package otelsafe_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/observe/otelsafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// scanned is a store that reads every record for each reading.
type scanned struct{ *memstore.Store }

func (scanned) ScansFully() bool { return true }

// Seen to fail with each of the four functions left out, with the given Observer replaced, with scanned watched, and
// with a stop that does nothing.
func TestNewGuardHasEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			store   retrysafe.Store
			watched bool
		}{{memstore.New(memstore.Options{}), true}, {scanned{memstore.New(memstore.Options{})}, false}} {
			m, spans := newMeter(t), tracetest.NewInMemoryExporter()
			var told atomic.Int64 // also by the sweep, beside the work
			traces := trace.NewTracerProvider(trace.WithSyncer(spans))
			g, stop, err := otelsafe.NewGuard(c.store, retrysafe.Options{
				Observer: retrysafe.ObserverFunc(func(context.Context, retrysafe.Event) { told.Add(1) }),
			}, otelsafe.Options{MeterProvider: m.provider, TracerProvider: traces})
			if err != nil {
				t.Fatal(err)
			}
			ctx, parent := traces.Tracer("test").Start(t.Context(), "POST /charges")
			if _, err := g.Do(ctx, request, answer); err != nil {
				t.Fatal(err)
			}
			parent.End()
			names := func() map[string]bool {
				found := map[string]bool{}
				for _, one := range m.collect() {
					found[one.Name] = true
				}
				return found
			}
			found := names()
			for name, want := range map[string]bool{
				"retrysafe.requests": true, "retrysafe.store.call.duration": true, "retrysafe.attempts.unsaved": true,
				"retrysafe.store.up": c.watched,
			} {
				if found[name] != want {
					t.Errorf("watched %t: %s is there: %t", c.watched, name, found[name])
				}
			}
			if told.Load() == 0 || len(spans.GetSpans()) != 2 {
				t.Errorf("the given observer was told %d events; %d spans", told.Load(), len(spans.GetSpans()))
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
			if found := names(); found["retrysafe.attempts.unsaved"] || found["retrysafe.store.up"] {
				t.Errorf("after stop: %v", found)
			}
			if err := g.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}
