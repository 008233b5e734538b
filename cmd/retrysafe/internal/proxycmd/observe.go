package proxycmd

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/proxy"
)

// observation is what watches a running proxy: its log, and its metrics if they are on.
type observation struct {
	store    retrysafe.Store // what the guard uses
	observer retrysafe.Observer
	requests proxy.ObserverFunc
	metrics  http.Handler // nil: none
	watch    func(*retrysafe.Guard) error
	reloaded func(ctx context.Context, ok bool)
	count    func(*httpsafe.Observation) error
	inbox    func(*outbox.Outbox) (outbox.Observer, error)
	close    func() error
}

// observe starts the log and the metrics.
func (p *plan) observe(store retrysafe.Store, traced *traces, log *slog.Logger) (observation, error) {
	do := whatToDo(p.store)
	pageOf := p.config.Dashboard.PageOf
	trouble, requests := logTrouble(log, do, pageOf), logRequests(log, do, pageOf)
	if !p.config.Metrics.Value {
		return observation{
			store: store, observer: trouble, requests: requests, close: func() error { return nil },
			watch: func(*retrysafe.Guard) error { return nil }, reloaded: func(context.Context, bool) {},
			count: func(*httpsafe.Observation) error { return nil },
			inbox: func(*outbox.Outbox) (outbox.Observer, error) {
				return outbox.ObserverFunc(func(context.Context, outbox.Event) {}), nil
			},
		}, nil
	}
	m, err := newMetrics(store, traced, p.config.MetricsScan.Value, log)
	if err != nil {
		return observation{}, err
	}
	return observation{
		store: m.store,
		observer: retrysafe.ObserverFunc(func(ctx context.Context, e retrysafe.Event) {
			trouble.Observe(ctx, e)
			m.observer.Observe(ctx, e)
		}),
		requests: func(ctx context.Context, e proxy.Event) {
			requests(ctx, e)
			m.request(ctx, e)
		},
		metrics:  m.handler(),
		inbox:    m.watchInbox,
		watch:    m.watch,
		count:    m.count,
		reloaded: m.reloaded,
		close:    m.close,
	}, nil
}
