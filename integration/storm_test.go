package integration

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/retrysafe/retrysafe"
)

// All callers wait, so all get the one answer. Seen to fail with a store whose Claim always says Acquired, and with
// mysqlstore asking for the rows of no keys when hundreds of new keys came at once.
func TestStormsHaveOneEffectAKey(t *testing.T) {
	for name, o := range stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := o.open(t)
			storm(t, s, 1, o.fewer(200))
			storm(t, s, o.fewer(1000), 3*o.fewer(1000))
		})
	}
}

// storm has so many callers run so many operations at once.
func storm(t *testing.T, s retrysafe.Store, keys, callers int) {
	t.Helper()
	guard := retrysafe.New(s, retrysafe.Options{
		StoreTimeout: patience,
		Policy:       retrysafe.Policy{OnInFlight: retrysafe.Wait(patience), Lease: patience},
	})
	defer guard.Shutdown(context.Background())
	runs := make([]atomic.Int64, keys)
	release := make(chan struct{})
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			<-release
			key := caller % keys
			request := retrysafe.Request{Key: retrysafe.Key{Scope: fmt.Sprintf("storm of %d", keys), ID: fmt.Sprint(key)}}
			got, err := retrysafe.Do(context.Background(), guard, request,
				func(context.Context, *retrysafe.Attempt) (int64, error) { return runs[key].Add(1), nil })
			if err != nil || got != 1 {
				t.Errorf("key %d: %d, %v", key, got, err)
			}
		})
	}
	close(release)
	all.Wait()
	for key := range runs {
		if n := runs[key].Load(); n != 1 {
			t.Errorf("key %d of %d ran %d times", key, keys, n)
		}
	}
}
