package integration

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/sqlitestore"
)

// stores returns all stores.
func stores() map[string]func(t *testing.T) retrysafe.Store {
	return map[string]func(t *testing.T) retrysafe.Store{
		"memstore": func(*testing.T) retrysafe.Store { return memstore.New(memstore.Options{}) },
		"sqlitestore": func(t *testing.T) retrysafe.Store {
			s, err := sqlitestore.Open(filepath.Join(t.TempDir(), "keys.db"), sqlitestore.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			return s
		},
		"pgstore": func(t *testing.T) retrysafe.Store {
			return openPostgres(t, shared.Get(t).Database(t))
		},
	}
}

// All callers wait, so all get the one answer. Seen to fail with a store whose Claim always says Acquired.
func TestStormsHaveOneEffectAKey(t *testing.T) {
	t.Parallel()
	for name, open := range stores() {
		for _, storm := range []struct{ keys, callers int }{{1, 200}, {1000, 3000}} {
			t.Run(fmt.Sprintf("%s/%d keys", name, storm.keys), func(t *testing.T) {
				// on a busy machine three thousand callers wait for longer than in a real service
				const patience = 5 * time.Minute
				guard := retrysafe.New(open(t), retrysafe.Options{
					StoreTimeout: patience,
					Policy:       retrysafe.Policy{OnInFlight: retrysafe.Wait(patience), Lease: patience},
				})
				defer guard.Shutdown(context.Background())
				runs := make([]atomic.Int64, storm.keys)
				release := make(chan struct{})
				var all sync.WaitGroup
				for caller := range storm.callers {
					all.Go(func() {
						<-release
						key := caller % storm.keys
						request := retrysafe.Request{Key: retrysafe.Key{Scope: "storm", ID: fmt.Sprint(key)}}
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
						t.Errorf("key %d ran %d times", key, n)
					}
				}
			})
		}
	}
}
