package natsstore

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
	"github.com/retrysafe/retrysafe/stores/internal/testkit"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

func TestContract(t *testing.T) {
	t.Parallel()
	again := func() jetstream.JetStream { return connect(t, shared.Get(t).URL()) }
	runContractOn(t, again(), again, BucketOptions{}, 6)
}

// Tags are kept and shown, although the store is no Finder. Seen to fail with Tags left out of acquire.
func TestTagsAreShown(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	l := testkit.AcquireTagged(t, s, "k", "1")
	if err := s.Complete(t.Context(), l, retrysafe.Result{}, retrysafe.Retention{}); err != nil {
		t.Fatal(err)
	}
	inspected, err := s.Inspect(t.Context(), l.Key.Digest())
	listed, errList := s.List(t.Context(), retrysafe.ListParams{})
	for _, found := range [][]retrysafe.Record{inspected, listed} {
		if err != nil || errList != nil || len(found) != 1 || !found[0].Tags.Has("order=1") {
			t.Errorf("got %v, %v, %v; want one record with the tag order=1", found, err, errList)
		}
	}
}

// runContractOn runs the suite in one bucket, which is emptied for each rule. All stores share a connection, but those
// that are opened again.
func runContractOn(t *testing.T, js jetstream.JetStream, again func() jetstream.JetStream, o BucketOptions, walks int) {
	t.Helper()
	o.Bucket = newBucket(t, js, o)
	storetest.Run(t, storetest.Harness{
		Open: func(t *testing.T) retrysafe.Store {
			s := open(t, js, Options{Bucket: o.Bucket})
			if err := s.reads.Purge(context.Background()); err != nil {
				t.Fatal(err)
			}
			return s
		},
		Age: func(t *testing.T, s retrysafe.Store, d time.Duration) { age(t, s.(*Store), d) },
		Reopen: func(*testing.T, retrysafe.Store) retrysafe.Store {
			return open(t, again(), Options{Bucket: o.Bucket})
		},
		TooLarge: storekit.MaxContent + 1,
		Walks:    walks,
	})
}
