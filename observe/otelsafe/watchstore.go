package otelsafe

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe"
	"go.opentelemetry.io/otel/metric"
)

// WatchOptions of WatchStore.
type WatchOptions struct {
	// MeterProvider that metrics go to. Default: otel.GetMeterProvider().
	MeterProvider metric.MeterProvider
	// Every is how often the store is read at most, however often metrics are collected. It is read less often if reading
	// takes long: at most a twentieth of the time is spent on it. Default 15 s.
	Every time.Duration
	// Timeout bounds one reading. Default 1 min.
	Timeout time.Duration
	// FailedFunc is told when a reading fails. Default: only the metric retrysafe.store.up tells.
	FailedFunc func(error)
}

const (
	defaultEvery   = 15 * time.Second
	defaultTimeout = time.Minute
	shareOfTime    = 20              // one part in so many is spent on reading
	patience       = 2 * time.Second // of whoever collects metrics
)

// PendingAger is implemented by stores that know how old their pending records are without listing them.
type PendingAger interface {
	// PendingAges returns ages of pending records since their first claim: one that 95 and one that 99 of 100 records do
	// not exceed, and that of the oldest. Without pending records they are 0.
	PendingAges(ctx context.Context) (p95, p99, oldest time.Duration, err error)
}

// WatchStore reads what the store holds when metrics are collected: the number of records by state, bytes, the ages of
// pending records, and how many records there will be in the long run. Collecting waits two seconds for a reading; if it
// takes longer it goes on in the background, and meanwhile the one before is shown. Call stop before the store is closed;
// it ends a reading that is under way. WatchStore returns an error if the MeterProvider does not make an instrument.
//
// Ages come from PendingAges if the store is a PendingAger; otherwise from the newest 1000 pending records, and the metric
// retrysafe.pending.unread says how many older ones are left out.
func WatchStore(i retrysafe.Inspector, o WatchOptions) (stop func() error, err error) {
	w := &storeWatch{inspector: i, options: o.withDefaults()}
	m := meterOf(o.MeterProvider)
	w.storeGauges = newStoreGauges(m)
	if m.err != nil {
		return nil, m.err
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	registration, err := m.meter.RegisterCallback(w.collect, w.all()...)
	if err != nil {
		return nil, fmt.Errorf("otelsafe: watch the store: %w", err)
	}
	return func() error {
		err := registration.Unregister()
		w.cancel()
		w.readings.Wait()
		return err
	}, nil
}

func (o WatchOptions) withDefaults() WatchOptions {
	if o.Every <= 0 {
		o.Every = defaultEvery
	}
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	if o.FailedFunc == nil {
		o.FailedFunc = func(error) {}
	}
	return o
}

// storeWatch keeps the last reading.
type storeWatch struct {
	storeGauges
	inspector retrysafe.Inspector
	options   WatchOptions
	ctx       context.Context // of readings
	cancel    context.CancelFunc
	readings  sync.WaitGroup

	mu       sync.Mutex
	last     reading
	failed   bool          // the last one did
	due      time.Time     // of the next one
	underWay chan struct{} // closed when the one under way has ended; nil: none is
}

// collect is called by the SDK.
func (w *storeWatch) collect(ctx context.Context, to metric.Observer) error {
	select {
	case <-w.begun():
	case <-time.After(patience):
	case <-ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.show(to, w.last, w.failed)
	return nil
}

// begun returns a channel that is closed when the reading under way has ended; if none is due it is closed already.
func (w *storeWatch) begun() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.underWay != nil {
		return w.underWay
	}
	ended := make(chan struct{})
	if time.Now().Before(w.due) {
		close(ended)
		return ended
	}
	w.underWay = ended
	w.readings.Go(w.read)
	return ended
}

// read makes a reading.
func (w *storeWatch) read() {
	ctx, stop := context.WithTimeout(w.ctx, w.options.Timeout)
	defer stop()
	began := time.Now()
	last, err := read(ctx, w.inspector)
	if err != nil && w.ctx.Err() == nil {
		w.options.FailedFunc(fmt.Errorf("read the store for metrics: %w", err))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	last.at = time.Now()
	w.last, w.failed = last, err != nil
	w.due = last.at.Add(max(w.options.Every, (shareOfTime-1)*last.at.Sub(began)))
	close(w.underWay)
	w.underWay = nil
}
