package shardstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/soak"
	"github.com/retrysafe/retrysafe/stores/shardstore"
)

// fleet is three programs with a Store each, which change their configurations one after the other.
type fleet struct {
	t      *testing.T
	guards [3]atomic.Pointer[retrysafe.Guard]
	served chan struct{}

	mu      sync.Mutex
	runs    map[string]int
	answers map[string]string
}

// roll gives each program another Store. The one before goes on with what it has begun.
func (f *fleet) roll(shards []shardstore.Shard, o shardstore.Options) {
	f.t.Helper()
	for i := range f.guards {
		policy := retrysafe.Policy{OnInFlight: retrysafe.Reject()}
		before := f.guards[i].Swap(retrysafe.New(open(f.t, shards, o), retrysafe.Options{Policy: policy}))
		if before != nil { // its requests end first, so that no two stages apart run side by side
			if err := before.Shutdown(context.Background()); err != nil {
				f.t.Fatal(err)
			}
		}
		for range 300 {
			<-f.served
		}
	}
}

// order sends an order to one of the programs.
func (f *fleet) order(id string) {
	g := f.guards[rand.IntN(len(f.guards))].Load()
	answer, err := retrysafe.Do(context.Background(), g, retrysafe.Request{Key: retrysafe.Key{ID: id}},
		func(context.Context, *retrysafe.Attempt) (string, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.runs[id]++
			return fmt.Sprint("charge ", rand.Int64()), nil
		})
	if err == nil {
		f.mu.Lock()
		first, again := f.answers[id]
		f.answers[id] = answer
		f.mu.Unlock()
		if again && first != answer {
			f.t.Errorf("order %s was answered %q and then %q", id, first, answer)
		}
	}
	f.served <- struct{}{}
}

// Two shards become three while clients order and retry: no order runs twice, and every retry gets the same answer.
//
// Seen to fail with claims in the new store alone at stage 2.
func TestSoakGrowing(t *testing.T) {
	for range soak.Times(t, 3) {
		shards := memories(3, new(atomic.Int64))
		f := &fleet{t: t, served: make(chan struct{}), runs: map[string]int{}, answers: map[string]string{}}
		first, ended := make(chan struct{}), make(chan struct{})
		var clients sync.WaitGroup
		for range 4 {
			clients.Go(func() {
				<-first
				for n := 0; ; n++ {
					select {
					case <-ended:
						return
					default:
					}
					f.order(fmt.Sprint(n - rand.IntN(n+1)/2)) // the clients race for the newest
				}
			})
		}
		for i := range f.guards {
			f.guards[i].Store(retrysafe.New(open(t, shards[:2], shardstore.Options{}), retrysafe.Options{}))
		}
		close(first)
		for _, stage := range stages() {
			f.roll(shards[:2], shardstore.Options{Move: &shardstore.Move{To: shards, Stage: stage}})
		}
		close(ended)
		go func() {
			for range f.served { // what the clients still send
			}
		}()
		clients.Wait()
		close(f.served)
		for id, n := range f.runs {
			if n != 1 {
				t.Errorf("order %s ran %d times", id, n)
			}
		}
		if stats := held(t, shards); stats[2] == 0 || len(f.runs) < 100 {
			t.Errorf("%d orders ran, and the new shard has %d", len(f.runs), stats[2])
		}
	}
}
