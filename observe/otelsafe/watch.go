package otelsafe

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"
)

// WatchOptions of WatchStore and of WatchOutbox.
type WatchOptions struct {
	// MeterProvider that metrics go to. Default: otel.GetMeterProvider().
	MeterProvider metric.MeterProvider
	// Name of what is watched: the attribute "outbox" of all metrics of WatchOutbox, which alone uses it. Give one if the program has
	// several outboxes, the same as in OutboxOptions. Default: there is no attribute.
	Name string
	// Every is how often it is read at most, however often metrics are collected. It is read less often if reading
	// takes long: at most a twentieth of the time is spent on it. Default 15 s.
	Every time.Duration
	// Timeout bounds one reading. Default 1 min.
	Timeout time.Duration
	// FailedFunc is told when a reading fails. Default: only the metrics retrysafe.store.up and
	// retrysafe.outbox.up tell.
	FailedFunc func(error)
}

const (
	defaultEvery   = 15 * time.Second
	defaultTimeout = time.Minute
	shareOfTime    = 20              // one part in so many is spent on reading
	patience       = 2 * time.Second // of whoever collects metrics
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

// watch reads something when metrics are collected, and keeps the last reading.
type watch[T any] struct {
	what     string
	options  WatchOptions
	read     func(context.Context) (T, error)
	show     func(to metric.Observer, last T, at time.Time, failed bool)
	ctx      context.Context // of readings
	cancel   context.CancelFunc
	readings sync.WaitGroup

	mu       sync.Mutex
	last     T
	at       time.Time     // when it was read; zero: there is none
	failed   bool          // the last one did
	due      time.Time     // of the next one
	underWay chan struct{} // closed when the one under way has ended; nil: none is
}

// start begins; what it returns ends it.
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
	select {
	case <-w.begun():
	case <-time.After(patience):
	case <-ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.show(to, w.last, w.at, w.failed)
	return nil
}

// begun returns a channel that is closed when the reading under way has ended; if none is due it is closed already.
func (w *watch[T]) begun() <-chan struct{} {
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
	w.readings.Go(w.look)
	return ended
}

// look makes a reading.
func (w *watch[T]) look() {
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
	close(w.underWay)
	w.underWay = nil
}
