package otelsafe_test

import (
	"fmt"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/observe/otelsafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/trace/noop"
)

// BenchmarkDo shows what metrics add to a guarded call, the SDK's part included.
func BenchmarkDo(b *testing.B) {
	provider := metric.NewMeterProvider(metric.WithReader(metric.NewManualReader()))
	o := otelsafe.Options{MeterProvider: provider, TracerProvider: noop.NewTracerProvider()}
	observer, err := otelsafe.New(o)
	if err != nil {
		b.Fatal(err)
	}
	measured, err := otelsafe.Instrument(memstore.New(memstore.Options{}), o)
	if err != nil {
		b.Fatal(err)
	}
	for name, guard := range map[string]*retrysafe.Guard{
		"alone":    retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{}),
		"observed": retrysafe.New(measured, retrysafe.Options{Observer: observer}),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				r := retrysafe.Request{Key: retrysafe.Key{Scope: "bench", ID: fmt.Sprint(name, b.N, i)}}
				if _, err := guard.Do(b.Context(), r, answer); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
