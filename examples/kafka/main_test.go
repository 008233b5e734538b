package main

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/retrysafe/retrysafe/examples/internal/till"
)

func TestOneChargeForEachOrder(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.SeedTopics(3, "orders"), kfake.SeedTopics(1, "orders.dead"))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	shop, err := till.Open(filepath.Join(t.TempDir(), "till.db"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- run(ctx, cluster.ListenAddrs(), shop) }()

	producer, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.DefaultProduceTopic("orders"))
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	for _, order := range []string{`{"order":"o-1","cents":1700}`, `{"order":"o-1","cents":1700}`, `{"order":"o-2"}`} {
		if err := producer.ProduceSync(ctx, kgo.StringRecord(order)).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	for tick := time.Tick(10 * time.Millisecond); ; <-tick {
		_, charges, err := shop.Charges(ctx)
		if err != nil || charges > 0 && cluster.PartitionInfo("orders.dead", 0).HighWatermark == 1 {
			break
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if orders, charges, err := shop.Charges(t.Context()); orders != 1 || charges != 1 || err != nil {
		t.Errorf("%d charges for %d orders, %v", charges, orders, err)
	}
	if err := shop.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
