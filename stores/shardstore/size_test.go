package shardstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/shardstore"
)

// scanned would read every record to count them.
type scanned struct{ *memstore.Store }

func (scanned) ScansFully() bool { return true }

// sized knows its size all the same.
type sized struct{ scanned }

func (sized) Size(context.Context) (entries, bytes int64, err error) { return 1000, 5000, nil }

// Sizes are added up, and those of shards that count their records at no cost are counts; a shard that can do neither
// is named.
func TestSize(t *testing.T) {
	counted := memstore.New(memstore.Options{})
	s := open(t, []shardstore.Shard{
		{Name: "a", Store: counted}, {Name: "b", Store: sized{scanned{memstore.New(memstore.Options{})}}},
	}, shardstore.Options{})
	for i := range 20 {
		if _, err := s.Claim(t.Context(), claimOf(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	held, err := counted.Stats(t.Context())
	if err != nil || held.Pending == 0 {
		t.Fatalf("the shard has %d records, %v", held.Pending, err)
	}
	entries, bytes, err := s.Size(t.Context())
	if err != nil || entries != 1000+held.Pending || bytes != 5000+held.Bytes {
		t.Errorf("Size = %d, %d, %v; want %d, %d", entries, bytes, err, 1000+held.Pending, 5000+held.Bytes)
	}
	s = open(t, []shardstore.Shard{{Name: "c", Store: scanned{counted}}}, shardstore.Options{})
	var sizer retrysafe.Sizer = s
	if _, _, err := sizer.Size(t.Context()); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Size of a shard that has none: %v, want ErrUnsupported", err)
	}
}
