package keys

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// scanning is a store without an index for its records, whose server knows its size.
type scanning struct{ *memstore.Store }

func (scanning) ScansFully() bool { return true }

func (scanning) Size(context.Context) (entries, bytes int64, err error) { return 7, 4096, nil }

// A store is measured: its records by state, the ages of the unfinished ones, and how many there will be. One without
// an index says only how large it is, unless its records are read, and then the same.
//
// Seen to fail with the pages of sample taken out, with the order of ages taken out of quantiles, and without Scan in
// the condition for scan.
func TestMeasure(t *testing.T) {
	now, ctx := time.Duration(0), t.Context()
	s := memstore.New(memstore.Options{Clock: func() time.Duration { return now }})
	claim := func(id string, lease time.Duration) retrysafe.Lease {
		c, err := s.Claim(ctx, retrysafe.ClaimParams{
			Key: retrysafe.Key{Scope: "a", ID: id}, Owner: retrysafe.NewOwner(), Lease: lease,
			Keep: retrysafe.Retention{Key: 1000 * time.Hour},
		})
		if err != nil {
			t.Fatal(err)
		}
		return c.Lease
	}
	const abandoned = 1200 // more than a page
	for range abandoned {
		claim(retrysafe.NewOwner().String(), time.Second)
		now += time.Minute
	}
	claim("in flight", time.Hour)
	keep := retrysafe.Retention{Key: 24 * time.Hour}
	if err := s.Complete(ctx, claim("ended", time.Hour), retrysafe.Result{}, keep); err != nil {
		t.Fatal(err)
	}
	measure := func(s retrysafe.Store, how Measure) Measured {
		m, err := NewLocal(s, nil).Measure(ctx, how)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	m := measure(s, Measure{})
	minutes := func(n float64) float64 { return 60 * n }
	want := map[string]Ages{
		Abandoned: {abandoned, minutes(600), minutes(1140), minutes(1188), minutes(1200)}, InFlight: {Keys: 1},
	}
	counts := map[string]int64{Abandoned: abandoned, Uncommitted: 0, InFlight: 1, Released: 0, Succeeded: 1, Failed: 0}
	if !reflect.DeepEqual(m.Ages, want) || !reflect.DeepEqual(m.Records, counts) || m.Bytes == 0 {
		t.Errorf("got %+v", m)
	}
	// 1000 records in 998 minutes, kept for a day.
	if m.Projected == nil || *m.Projected != 1443 || *m.ProjectedBytes != int64(float64(m.Bytes)*1443/(abandoned+2)) {
		t.Errorf("projected: %+v", m)
	}
	if got := measure(scanning{s}, Measure{}); !reflect.DeepEqual(got, Measured{Entries: 7, Bytes: 4096}) {
		t.Errorf("not read: %+v", got)
	}
	got := measure(scanning{s}, Measure{Scan: true})
	if !reflect.DeepEqual(got.Ages, want) || !reflect.DeepEqual(got.Records, counts) || *got.Projected != 1443 {
		t.Errorf("read: %+v", got)
	}
}
