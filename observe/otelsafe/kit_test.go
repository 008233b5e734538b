package otelsafe_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/observe/otelsafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// What must be seen nowhere.
const (
	secretScope = "tenant-of-alice"
	secretID    = "order-of-alice"
)

var (
	errDown = errors.New("down")
	request = retrysafe.Request{Key: retrysafe.Key{Scope: secretScope, ID: secretID}, Fingerprint: "raw:pay"}
	other   = retrysafe.Request{Key: request.Key, Fingerprint: "raw:more"}
)

// faulty is a memstore whose calls fail without effect while they are down.
type faulty struct {
	*memstore.Store
	claims, extends, completes, releases, checkpoints atomic.Bool
}

func failIf(down *atomic.Bool) error {
	if down.Load() {
		return errDown
	}
	return nil
}

func (f *faulty) Claim(ctx context.Context, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
	if err := failIf(&f.claims); err != nil {
		return retrysafe.Claim{}, err
	}
	return f.Store.Claim(ctx, p)
}

func (f *faulty) Extend(ctx context.Context, l retrysafe.Lease, d time.Duration) error {
	return errors.Join(failIf(&f.extends), f.Store.Extend(ctx, l, d))
}

func (f *faulty) Checkpoint(ctx context.Context, l retrysafe.Lease, s retrysafe.StepResult) error {
	if err := failIf(&f.checkpoints); err != nil {
		return err
	}
	return f.Store.Checkpoint(ctx, l, s)
}

func (f *faulty) Complete(ctx context.Context, l retrysafe.Lease, r retrysafe.Result, keep retrysafe.Retention) error {
	if err := failIf(&f.completes); err != nil {
		return err
	}
	return f.Store.Complete(ctx, l, r, keep)
}

func (f *faulty) Release(ctx context.Context, l retrysafe.Lease) error {
	if err := failIf(&f.releases); err != nil {
		return err
	}
	return f.Store.Release(ctx, l)
}

// kit is a guard that is observed, with time that passes at once.
type kit struct {
	*testing.T
	ctx     context.Context
	store   *faulty
	guard   *retrysafe.Guard
	metrics *meter
	spans   *tracetest.InMemoryExporter
	traces  *trace.TracerProvider
}

// bubble runs test inside a synctest bubble: time.Sleep passes time without waiting.
func bubble(t *testing.T, p retrysafe.Policy, test func(k *kit)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t, p, otelsafe.Options{})
		test(k)
		k.shutdown()
	})
}

func newKit(t *testing.T, p retrysafe.Policy, o otelsafe.Options) *kit {
	t.Helper()
	k := &kit{
		T:       t,
		ctx:     context.Background(),
		store:   &faulty{Store: memstore.New(memstore.Options{})},
		metrics: newMeter(t),
		spans:   tracetest.NewInMemoryExporter(),
	}
	k.traces = trace.NewTracerProvider(trace.WithSyncer(k.spans), trace.WithSampler(trace.AlwaysSample()))
	o.MeterProvider, o.TracerProvider = k.metrics.provider, k.traces
	k.guard = retrysafe.New(k.measured(o), retrysafe.Options{Policy: p, Observer: k.observer(o)})
	return k
}

func (k *kit) observer(o otelsafe.Options) *otelsafe.Observer {
	k.Helper()
	observer, err := otelsafe.New(o)
	k.must(err)
	return observer
}

func (k *kit) measured(o otelsafe.Options) retrysafe.Store {
	k.Helper()
	measured, err := otelsafe.Instrument(k.store, o)
	k.must(err)
	return measured
}

func (k *kit) must(err error) {
	k.Helper()
	if err != nil {
		k.Fatal(err)
	}
}

func (k *kit) shutdown() {
	k.Helper()
	k.must(k.guard.Shutdown(k.ctx))
}

// do expects the work to end with this error, or to be refused with it.
func (k *kit) do(r retrysafe.Request, want error, work retrysafe.Work) {
	k.Helper()
	_, err := k.guard.Do(k.ctx, r, work)
	if !errors.Is(err, want) {
		k.Errorf("Do: got %v, want %v", err, want)
	}
}

// crash leaves the key pending, as a process does that dies at work, until its lease runs out.
func (k *kit) crash(lease time.Duration) {
	k.Helper()
	_, err := k.store.Store.Claim(k.ctx, retrysafe.ClaimParams{
		Key: request.Key, Fingerprint: request.Fingerprint, Owner: retrysafe.NewOwner(), Lease: lease,
	})
	k.must(err)
}

// takeOver does what another process does once the lease has run out.
func (k *kit) takeOver(l retrysafe.Lease) {
	k.Helper()
	k.must(k.store.Store.Extend(k.ctx, l, 0))
	c, err := k.store.Store.Claim(k.ctx, retrysafe.ClaimParams{
		Key: l.Key, Fingerprint: request.Fingerprint, Owner: retrysafe.NewOwner(), Lease: time.Hour, TakeOver: true,
	})
	k.must(err)
	if c.Verdict != retrysafe.Acquired {
		k.Fatalf("take over: %s", c.Verdict)
	}
}

func answer(context.Context, *retrysafe.Attempt) (retrysafe.Result, error) {
	return retrysafe.Result{Body: []byte("paid")}, nil
}

// meter collects metrics.
type meter struct {
	t        *testing.T
	reader   metric.Reader
	provider *metric.MeterProvider
}

func newMeter(t *testing.T) *meter {
	reader := metric.NewManualReader()
	return &meter{t, reader, metric.NewMeterProvider(metric.WithReader(reader))}
}

func (m *meter) collect() []metricdata.Metrics {
	m.t.Helper()
	var found metricdata.ResourceMetrics
	if err := m.reader.Collect(context.Background(), &found); err != nil {
		m.t.Fatal(err)
	}
	var all []metricdata.Metrics
	for _, s := range found.ScopeMetrics {
		all = append(all, s.Metrics...)
	}
	return all
}

// series returns what is measured, as name{key=value}, and of histograms how often.
func (m *meter) series() map[string]float64 {
	m.t.Helper()
	found := map[string]float64{}
	note := func(name string, set attribute.Set, v float64) { found[seriesName(name, set)] = v }
	for _, one := range m.collect() {
		switch data := one.Data.(type) {
		case metricdata.Sum[int64]:
			for _, p := range data.DataPoints {
				note(one.Name, p.Attributes, float64(p.Value))
			}
		case metricdata.Gauge[int64]:
			for _, p := range data.DataPoints {
				note(one.Name, p.Attributes, float64(p.Value))
			}
		case metricdata.Gauge[float64]:
			for _, p := range data.DataPoints {
				note(one.Name, p.Attributes, p.Value)
			}
		case metricdata.Histogram[float64]:
			for _, p := range data.DataPoints {
				note(one.Name, p.Attributes, float64(p.Count))
				note(one.Name+".sum", p.Attributes, p.Sum)
			}
		case metricdata.Histogram[int64]:
			for _, p := range data.DataPoints {
				note(one.Name, p.Attributes, float64(p.Count))
				note(one.Name+".sum", p.Attributes, float64(p.Sum))
			}
		default:
			m.t.Fatalf("%s is a %T", one.Name, data)
		}
	}
	return found
}

func seriesName(name string, set attribute.Set) string {
	var parts []string
	for _, kv := range set.ToSlice() {
		parts = append(parts, fmt.Sprintf("%s=%s", kv.Key, kv.Value.String()))
	}
	if len(parts) == 0 {
		return name
	}
	slices.Sort(parts)
	return name + "{" + strings.Join(parts, ",") + "}"
}

// want compares series; those that are not named are not looked at.
func (m *meter) want(want map[string]float64) {
	m.t.Helper()
	got := m.series()
	for name, v := range want {
		if g, ok := got[name]; !ok || g != v {
			m.t.Errorf("%s: got %v (there: %t), want %v", name, g, ok, v)
		}
	}
	if m.t.Failed() {
		m.t.Logf("all: %v", got)
	}
}
