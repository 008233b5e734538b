package natsstore

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// BenchmarkPairs measures a claim and its completion, with an answer of 300 bytes, on one server and on three, each of
// which syncs always or every two minutes.
func BenchmarkPairs(b *testing.B) {
	for _, sync := range []bool{false, true} {
		o := servers.NATSOptions{SyncAlways: sync}
		for _, callers := range []int{1, 64, 256} {
			name := fmt.Sprintf("sync_always=%v/callers=%d", sync, callers)
			b.Run("R1/"+name, func(b *testing.B) {
				js := connect(b, servers.StartNATS(b, o).URL())
				pairs(b, callers, open(b, js, Options{Bucket: newBucket(b, js, BucketOptions{})}))
			})
			b.Run("R3/"+name, func(b *testing.B) {
				c := servers.StartNATSCluster(b, o)
				js := connect(b, c.URLs(), nats.SetCustomDialer(c.Nodes[0].Host))
				pairs(b, callers, open(b, js, Options{Bucket: newBucket(b, js, BucketOptions{Replicas: 3})}))
			})
		}
	}
}

func pairs(b *testing.B, callers int, s *Store) {
	var next atomic.Int64
	var all sync.WaitGroup
	b.ResetTimer()
	for range callers {
		all.Go(func() {
			for {
				n := next.Add(1)
				if n > int64(b.N) {
					return
				}
				if err := pair(s, strconv.FormatInt(n, 10)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
	b.StopTimer()
	info, err := s.reads.Info(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(info.State.Bytes)/float64(max(info.State.Msgs, 1)), "bytes/record")
}

func pair(s *Store, id string) error {
	c, err := s.Claim(context.Background(), params(id))
	if err != nil {
		return err
	}
	if c.Verdict != retrysafe.Acquired {
		return fmt.Errorf("key %s is %s", id, c.Verdict)
	}
	return s.Complete(context.Background(), c.Lease, retrysafe.Result{Code: 201, Body: make([]byte, 300)},
		retrysafe.Retention{})
}
