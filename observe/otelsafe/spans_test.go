package otelsafe_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/observe/otelsafe"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	api "go.opentelemetry.io/otel/trace"
)

// traced makes a request inside a span of its own, and returns that.
func (k *kit) traced(g *retrysafe.Guard, r retrysafe.Request, work retrysafe.Work) (api.SpanContext, error) {
	ctx, span := k.traces.Tracer("test").Start(k.ctx, "request")
	defer span.End()
	_, err := g.Do(ctx, r, work)
	return span.SpanContext(), err
}

func (k *kit) spanOf(c api.SpanContext) tracetest.SpanStub {
	k.Helper()
	for _, s := range k.spans.GetSpans() {
		if s.SpanContext.SpanID() == c.SpanID() {
			return s
		}
	}
	k.Fatalf("no span %s", c.SpanID())
	return tracetest.SpanStub{}
}

func (k *kit) spansNamed(name string) []tracetest.SpanStub {
	var found []tracetest.SpanStub
	for _, s := range k.spans.GetSpans() {
		if s.Name == name {
			found = append(found, s)
		}
	}
	return found
}

func attributesOf(list []attribute.KeyValue) map[attribute.Key]string {
	m := map[attribute.Key]string{}
	for _, kv := range list {
		m[kv.Key] = kv.Value.String()
	}
	return m
}

// One goes from the span of a replay by its link to the key's trace, from there by the attempt's link to the span of
// the request that did the work. Another process served the replay: its Observer has seen nothing of the attempt.
//
// Seen to fail with either link taken out, and with a trace ID drawn at random.
func TestAReplayLeadsToTheOriginal(t *testing.T) {
	bubble(t, retrysafe.Policy{}, func(k *kit) {
		original, err := k.traced(k.guard, request, answer)
		k.must(err)
		elsewhere := retrysafe.New(k.store, retrysafe.Options{Observer: k.observer(otelsafe.Options{
			MeterProvider: newMeter(t).provider, TracerProvider: k.traces,
		})})
		replay, err := k.traced(elsewhere, request, answer)
		k.must(err)
		k.must(elsewhere.Shutdown(k.ctx))

		span := k.spanOf(replay)
		got := attributesOf(span.Attributes)
		if got["retrysafe.replayed"] != "true" || got["retrysafe.attempt"] != "1" {
			t.Errorf("attributes of the replay: %v", got)
		}
		if len(span.Links) != 1 {
			t.Fatalf("the replay has %d links, want 1", len(span.Links))
		}
		found := k.spansNamed("retrysafe attempt")
		if len(found) != 1 {
			t.Fatalf("got %d attempts, want 1", len(found))
		}
		attempt, link := found[0], span.Links[0].SpanContext
		if link.TraceID() != attempt.SpanContext.TraceID() || link.SpanID() != attempt.Parent.SpanID() {
			t.Errorf("the replay leads to %s, the attempt is under %s", link.TraceID(), attempt.SpanContext.TraceID())
		}
		if len(attempt.Links) != 1 || !attempt.Links[0].SpanContext.Equal(original) {
			t.Errorf("the attempt leads to %v, want %v", attempt.Links, original)
		}
		if replays := k.spansNamed("retrysafe replay"); len(replays) != 1 || !replays[0].Links[0].SpanContext.Equal(replay) {
			t.Errorf("replays in the key's trace: %v", replays)
		}
		if id := attempt.SpanContext.TraceID().String(); id != request.Key.Digest().String() {
			t.Errorf("the key's trace is %s, want its digest", id)
		}
		if got := attributesOf(attempt.Attributes)["retrysafe.outcome"]; got != "succeeded" {
			t.Errorf("outcome: got %q", got)
		}
	})
}

// Seen to fail with AddEvent taken out.
func TestTheRequestsSpanHasTheEvents(t *testing.T) {
	bubble(t, retrysafe.Policy{}, func(k *kit) {
		first, err := k.traced(k.guard, request, answer)
		k.must(err)
		second, err := k.traced(k.guard, other, answer)
		if !errors.Is(err, retrysafe.ErrMismatch) {
			t.Errorf("got %v", err)
		}
		for want, c := range map[string]api.SpanContext{
			"[retrysafe.attempt_started retrysafe.work_succeeded]": first,
			"[retrysafe.mismatch_refused]":                         second,
		} {
			var names []string
			for _, e := range k.spanOf(c).Events {
				names = append(names, e.Name)
				if got := attributesOf(e.Attributes)["retrysafe.key.digest"]; got != request.Key.Digest().String() {
					t.Errorf("%s: digest %q", e.Name, got)
				}
			}
			if fmt.Sprint(names) != want {
				t.Errorf("got %v, want %s", names, want)
			}
		}
		if got := attributesOf(k.spanOf(second).Attributes)["retrysafe.replayed"]; got != "" {
			t.Error("a refusal is marked as a replay")
		}
	})
}

func TestAnUnknownOutcomeIsAnErrorInTheKeysTrace(t *testing.T) {
	bubble(t, retrysafe.Policy{}, func(k *kit) {
		_, err := k.traced(k.guard, request, func(context.Context, *retrysafe.Attempt) (retrysafe.Result, error) {
			return retrysafe.Result{}, retrysafe.Unknown(errDown)
		})
		if !errors.Is(err, retrysafe.ErrAbandoned) {
			t.Errorf("got %v", err)
		}
		if found := k.spansNamed("retrysafe attempt"); len(found) != 1 || found[0].Status.Code != codes.Error {
			t.Errorf("got %v, want one with an error", found)
		}
	})
}

// Seen to fail with the look at the sampling decision taken out.
func TestWhatIsNotSampledLeavesNoTrace(t *testing.T) {
	bubble(t, retrysafe.Policy{}, func(k *kit) {
		never := trace.NewTracerProvider(trace.WithSampler(trace.NeverSample()))
		ctx, span := never.Tracer("test").Start(k.ctx, "request")
		_, err := k.guard.Do(ctx, request, answer)
		k.must(err)
		span.End()
		_, err = k.guard.Do(k.ctx, request, answer) // without any span
		k.must(err)
		if found := k.spans.GetSpans(); len(found) != 0 {
			t.Errorf("got %v, want no span", found)
		}
	})
}

// Whatever happens, nothing that is shown contains the key's ID, the scope or the owner.
//
// Seen to fail with the key's ID instead of its digest in attributesOf, and with the scope as an attribute of requests.
func TestKeysAreShownNowhere(t *testing.T) {
	bubble(t, retrysafe.Policy{OnInFlight: retrysafe.Wait(time.Second), OnStoreError: retrysafe.FailOpen}, func(k *kit) {
		stop, err := otelsafe.WatchStore(k.store, otelsafe.WatchOptions{MeterProvider: k.metrics.provider})
		k.must(err)
		var owners []string
		slow := func(ctx context.Context, a *retrysafe.Attempt) (retrysafe.Result, error) {
			owners = append(owners, a.Control().Lease().Owner.String())
			_, err := k.traced(k.guard, request, answer) // waits in vain
			if !errors.Is(err, retrysafe.ErrWaitTimeout) {
				t.Errorf("got %v", err)
			}
			return answer(ctx, a)
		}
		for _, r := range []retrysafe.Request{request, request, other} {
			_, _ = k.traced(k.guard, r, slow)
		}
		second := retrysafe.Request{Key: retrysafe.Key{Scope: secretScope, ID: secretID + " 2"}}
		_, _ = k.traced(k.guard, second, func(_ context.Context, a *retrysafe.Attempt) (retrysafe.Result, error) {
			return retrysafe.Result{}, retrysafe.Unknown(errors.New("of " + a.Key().ID))
		})
		k.store.claims.Store(true)
		_, _ = k.traced(k.guard, request, answer)
		k.store.claims.Store(false)
		shown := fmt.Sprintf("%+v\n%+v", k.metrics.collect(), k.spans.GetSpans())
		for _, secret := range append(owners, secretID, secretScope) {
			if strings.Contains(shown, secret) {
				t.Errorf("%q is shown", secret)
			}
		}
		if len(owners) != 1 || !strings.Contains(shown, "ran_unprotected") ||
			!strings.Contains(shown, "retrysafe.pending.age") {
			t.Errorf("not everything happened: %s", shown)
		}
		k.must(stop())
	})
}
