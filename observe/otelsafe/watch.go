package otelsafe

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/retrysafe/retrysafe"
)

// WatchOptions of WatchStore and of WatchOutbox.
type WatchOptions struct {
	// MeterProvider creates the instruments. Default: otel.GetMeterProvider().
	MeterProvider metric.MeterProvider
	// Name is the attribute "outbox" of all metrics of WatchOutbox; WatchStore does not use it. Set it, to the same
	// as OutboxOptions.Name, if the program has several outboxes. Default: no attribute.
	Name string
	// Every is the shortest time between two readings, even if metrics are collected more often. Readings that take
	// long are made less often: they take at most a twentieth of the time. Default 15 s.
	Every time.Duration
	// Timeout is the longest that a reading may take. Default 1 min.
	Timeout time.Duration
	// ScanEvery has WatchStore read all records of a store that is a retrysafe.FullScanner and scans fully, at most this
	// often, for the metrics that its server does not know: records by state, ages, and the estimate for the long run.
	// A scan runs in the background and costs what the store's Walk does; it is given up after ScanEvery, and takes at
	// most a twentieth of the time. Other stores need none. Default 0: no scans, and these metrics are absent.
	ScanEvery time.Duration
	// UnknownFunc counts the abandoned records whose outcome is unknown, for WatchStore; it is called if there are
	// abandoned ones. The others are reported in the state "uncommitted": those whose work has not been committed by the
	// service that completes the key in its own transaction. Default: none; the outcomes of all are unknown.
	UnknownFunc func(context.Context) (int64, error)
	// UnknownRecordFunc is UnknownFunc for scans: it reports whether the outcome of an abandoned record is unknown.
	UnknownRecordFunc func(retrysafe.Record) bool
	// FailedFunc is called when a reading fails. Default: none; the metrics retrysafe.store.up and
	// retrysafe.outbox.up are then 0.
	FailedFunc func(error)
}

const (
	defaultEvery   = 15 * time.Second
	defaultTimeout = time.Minute
	shareOfTime    = 20              // one part in 20 is spent on reading
	collectTimeout = 2 * time.Second // how long collecting waits for a reading
)

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

// watch reads a store or an outbox when metrics are collected, and keeps the last reading.
type watch[T any] struct {
	what     string
	options  WatchOptions
	unwaited bool // collecting waits for no reading
	read     func(context.Context) (T, error)
	show     func(to metric.Observer, last T, at time.Time, failed bool)
	ctx      context.Context // that of readings
	cancel   context.CancelFunc
	readings sync.WaitGroup

	mu      sync.Mutex
	last    T
	at      time.Time     // of the last reading; zero: there is none
	failed  bool          // the last reading failed
	due     time.Time     // when the next reading may start
	current chan struct{} // closed when the current reading has ended; nil: there is none
}

// start registers the gauges. stop unregisters them and ends a reading.
func (w *watch[T]) start(m *maker, gauges []metric.Observable) (stop func() error, err error) {
	if m.err != nil {
		return nil, m.err
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	registration, err := m.meter.RegisterCallback(w.collect, gauges...)
	if err != nil {
		return nil, fmt.Errorf("otelsafe: watch %s: %w", w.what, err)
	}
	return func() error {
		err := registration.Unregister()
		w.cancel()
		w.readings.Wait()
		return err
	}, nil
}

// collect is called by the SDK.
func (w *watch[T]) collect(ctx context.Context, to metric.Observer) error {
	begun := w.begun()
	if !w.unwaited {
		select {
		case <-begun:
		case <-time.After(collectTimeout):
		case <-ctx.Done():
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.show(to, w.last, w.at, w.failed)
	return nil
}

// begun starts a reading if one is due. It returns a channel that is closed when the current reading has ended; if
// there is none, the channel is closed already.
func (w *watch[T]) begun() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.current != nil {
		return w.current
	}
	ended := make(chan struct{})
	if time.Now().Before(w.due) {
		close(ended)
		return ended
	}
	w.current = ended
	w.readings.Go(w.readOnce)
	return ended
}

// readOnce makes one reading and wakes the collections that wait for it.
func (w *watch[T]) readOnce() {
	ctx, stop := context.WithTimeout(w.ctx, w.options.Timeout)
	defer stop()
	began := time.Now()
	last, err := w.read(ctx)
	if err != nil && w.ctx.Err() == nil {
		w.options.FailedFunc(fmt.Errorf("read %s for metrics: %w", w.what, err))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last, w.at, w.failed = last, time.Now(), err != nil
	w.due = w.at.Add(max(w.options.Every, (shareOfTime-1)*w.at.Sub(began)))
	close(w.current)
	w.current = nil
}
