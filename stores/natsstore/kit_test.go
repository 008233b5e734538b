package natsstore

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/stores/internal/testkit"
)

// shared is the server of all tests that do not harm it.
var shared servers.SharedNATS

// patience is how long a test waits for what should happen within seconds.
const patience = testkit.Patience

// Words that the tests of several stores share.
var params, acquire, until = testkit.Params, testkit.Acquire, testkit.Eventually

// connect returns a connection that ends with the test, and that is made anew for as long as that takes.
func connect(t testing.TB, url string, o ...nats.Option) jetstream.JetStream {
	t.Helper()
	o = append([]nats.Option{
		nats.MaxReconnects(-1), nats.ReconnectWait(20 * time.Millisecond), nats.Timeout(patience),
	}, o...)
	conn, err := nats.Connect(url, o...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	return js
}

var buckets atomic.Int64

// newBucket makes a bucket of its own for a test.
func newBucket(t testing.TB, js jetstream.JetStream, o BucketOptions) string {
	t.Helper()
	if o.Bucket == "" {
		o.Bucket = "test-" + strconv.FormatInt(buckets.Add(1), 10)
	}
	err := CreateBucket(t.Context(), js, o)
	// The leader of a new cluster may not know yet what the others have room for.
	for late := time.Now().Add(time.Minute); err != nil && o.Replicas > 1 && time.Now().Before(late); {
		time.Sleep(20 * time.Millisecond)
		err = CreateBucket(t.Context(), js, o)
	}
	if err != nil {
		t.Fatal(err)
	}
	return o.Bucket
}

func open(t testing.TB, js jetstream.JetStream, o Options) *Store {
	t.Helper()
	s, err := New(context.Background(), js, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// openTest returns a store on a bucket of its own on the shared server.
func openTest(t testing.TB) *Store {
	t.Helper()
	js := connect(t, shared.Get(t).URL())
	return open(t, js, Options{Bucket: newBucket(t, js, BucketOptions{})})
}

// age lets time pass by moving all instants into the past.
func age(t testing.TB, s *Store, d time.Duration) {
	t.Helper()
	if err := s.age(context.Background(), d); err != nil {
		t.Fatal(err)
	}
}

func (s *Store) age(ctx context.Context, d time.Duration) error {
	info, err := s.reads.Info(ctx, jetstream.WithSubjectFilter(recordSpace(s.options.Bucket)+">"))
	if err != nil {
		return err
	}
	for subject := range info.State.Subjects {
		digest, err := retrysafe.ParseDigest(subject[len(recordSpace(s.options.Bucket)):])
		if err != nil {
			return err
		}
		err = s.update(ctx, digest, nil, func(e *entry, _ storekit.Instant) (*entry, bool, error) {
			next := *e
			next.older = append([]record{}, e.older...)
			for _, r := range next.all() {
				r.ClaimedAt -= d.Microseconds()
				r.EndsAt -= d.Microseconds()
			}
			return &next, false, nil
		})
		if err != nil {
			return err
		}
		s.leases.drop(digest)
	}
	return nil
}
