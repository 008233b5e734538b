package proxycmd

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/reportcmd"
	"github.com/retrysafe/retrysafe/httpsafe"
)

// observing is what a proxy counts of its routes in observe mode. A reload may add and remove such routes.
type observing struct {
	*httpsafe.Observation
	since time.Time
}

func startObserving(g *retrysafe.Guard, seen observation) (*observing, error) {
	o := &observing{httpsafe.NewObservation(g, httpsafe.ObservationOptions{Observer: seen.observer}), time.Now()}
	return o, seen.count(o.Observation)
}

// patience is how long the counts may be saved when the proxy ends. They are worth no longer wait.
const patience = 2 * time.Second

// stop waits until what was observed is saved, but not for a store that does not answer.
func (o *observing) stop() {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	_ = o.Shutdown(ctx)
}

// ServeHTTP serves the report.
func (o *observing) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	rows := []reportcmd.Row{}
	for _, c := range o.Counts() {
		rows = append(rows, reportcmd.RowOf(c))
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(reportcmd.Report{Since: o.since.UTC(), Routes: rows})
}

// count adds the metrics of observe mode.
func (m *metrics) count(seen *httpsafe.Observation) error {
	meter := m.provider.Meter("github.com/retrysafe/retrysafe/cmd/retrysafe")
	requests, err := meter.Int64ObservableCounter("retrysafe.observe.requests",
		metric.WithDescription("Requests in observe mode, by route and by what would have become of them."))
	if err != nil {
		return err
	}
	reused, err := meter.Int64ObservableCounter("retrysafe.observe.keys.reused",
		metric.WithDescription("Keys in observe mode that were used a second time, by route."))
	if err != nil {
		return err
	}
	_, err = meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		for _, c := range seen.Counts() {
			route := attribute.String("route", nameOf(c.Route))
			for o, n := range c.Observed {
				to.ObserveInt64(requests, n, metric.WithAttributes(route, attribute.String("outcome", o.String())))
			}
			to.ObserveInt64(reused, c.Reused, metric.WithAttributes(route))
		}
		return nil
	}, requests, reused)
	return err
}
