package outbox

import (
	"context"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/outbox"
)

// How many messages relays move in a second on a PostgreSQL that syncs, to a sink that answers at once: with batches that
// are sent one after the other, with several at a time, and message by message.
//
//	go test -run '^$' -bench Relay -benchtime 1x ./outbox
func BenchmarkRelay(b *testing.B) {
	const messages = 20_000
	nothing := outbox.SinkFunc(func(_ context.Context, batch []outbox.Delivery) []error { return make([]error, len(batch)) })
	each := func() outbox.Sink {
		return outbox.Each(64, func(context.Context, outbox.Delivery) error { return nil })
	}
	server := servers.StartPostgres(b, servers.PostgresOptions{})
	for _, c := range []struct {
		name   string
		relays int
		sink   func() outbox.Sink
		o      outbox.RelayOptions
	}{
		{"one relay, a batch at a time", 1, func() outbox.Sink { return nothing }, outbox.RelayOptions{}},
		{"one relay, 500 in 4 batches", 1, func() outbox.Sink { return nothing }, outbox.RelayOptions{Workers: 4, Batch: 500}},
		{"four relays, 500 in 4 batches", 4, func() outbox.Sink { return nothing }, outbox.RelayOptions{Workers: 4, Batch: 500}},
		{"one relay, message by message", 1, each, outbox.RelayOptions{Batch: 500}},
		{"four relays, message by message", 4, each, outbox.RelayOptions{Batch: 500}},
	} {
		b.Run(c.name, func(b *testing.B) {
			db, err := database{outbox.PostgreSQL, server.Database(b)}.open()
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			box, err := outbox.New(db, outbox.PostgreSQL, outbox.Options{})
			if err == nil {
				_, err = box.Migrate(b.Context())
			}
			if err != nil {
				b.Fatal(err)
			}
			for range b.N {
				b.StopTimer()
				if _, err := db.Exec(`INSERT INTO outbox
					(key, topic, aggregate, header, body, digest, saved_by, saved_at, due_at, owner, tries, state, error)
					SELECT convert_to(gen_random_uuid()::text, 'UTF8'), 'orders', '', '', convert_to(repeat('x', 500), 'UTF8'), 'd', '',
						n, n, '', 0, 1, '' FROM generate_series(1, $1::bigint) AS n`, messages); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				ctx, stop := context.WithCancel(b.Context())
				ended := make(chan error, c.relays)
				for range c.relays {
					go func() { ended <- outbox.NewRelay(box, c.sink(), c.o).Run(ctx) }()
				}
				for left := 1; left > 0; time.Sleep(5 * time.Millisecond) {
					if err := db.QueryRow("SELECT count(*) FROM outbox WHERE state = 1").Scan(&left); err != nil {
						b.Fatal(err)
					}
				}
				stop()
				for range c.relays {
					<-ended
				}
			}
			b.ReportMetric(float64(messages*b.N)/b.Elapsed().Seconds(), "messages/s")
			b.ReportMetric(0, "ns/op")
		})
	}
	b.Logf("%d messages of 500 bytes", messages)
}
