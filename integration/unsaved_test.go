package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// The server stops while many operations run, and stays away for longer than their leases. Retries get the answers from
// memory, then from the record, and never an unknown outcome; after the first answer that another process can get, it
// gets all of them. Seen to fail with the check for unsaved ends taken out of claims: ErrStoreFailed in the outage, and
// ErrAbandoned after it.
func TestAnswersOutliveAnOutageOfPostgres(t *testing.T) {
	t.Parallel()
	const operations = 50
	pg := servers.StartPostgres(t, servers.PostgresOptions{})
	url := pg.Database(t)
	policy := retrysafe.Policy{Lease: 300 * time.Millisecond, HoldUnsaved: -1}
	store := openPostgres(t, url)
	guard := retrysafe.New(store, retrysafe.Options{Policy: policy, SweepEvery: -1})
	keys := make([]retrysafe.Request, operations)
	began, away, ended := make(chan struct{}), make(chan struct{}), make(chan error)
	for i := range operations {
		go func() {
			var err error
			// On a busy machine a claim may take longer than a third of its lease, and its key may be abandoned.
			for runs, try := false, 0; !runs; try++ {
				keys[i].Key = retrysafe.Key{ID: fmt.Sprint(i, " ", try)}
				_, err = guard.Do(t.Context(), keys[i], func(context.Context, *retrysafe.Attempt) (retrysafe.Result, error) {
					runs = true
					began <- struct{}{}
					<-away
					return retrysafe.Result{Body: []byte{byte(i)}}, nil
				})
			}
			ended <- err
		}()
	}
	for range operations {
		<-began
	}
	pg.Stop(t)
	close(away)
	for range operations {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	retryAll := func(when string, g *retrysafe.Guard) (stored int) {
		t.Helper()
		for i := range operations {
			out, err := g.Do(t.Context(), keys[i], nil)
			if err != nil || len(out.Result.Body) != 1 || out.Result.Body[0] != byte(i) || !out.Replayed {
				t.Errorf("%s: retry %d = %+v, %v", when, i, out, err)
			}
			if out.Stored {
				stored++
			}
		}
		return stored
	}
	patient := guard.With(retrysafe.Policy{Lease: time.Minute}) // the lease bounds each call to the store
	if n := retryAll("in the outage", patient); n != 0 {
		t.Errorf("%d answers say that they are saved, and the server is away", n)
	}
	if ends, bytes := guard.Unsaved(); ends != operations || bytes != operations {
		t.Errorf("%d ends of %d bytes wait to be saved, want %d", ends, bytes, operations)
	}
	pg.Start(t)
	// a try that takes longer than a second, as on a busy machine, has the answer handed out unsaved once more
	for began := time.Now(); retryAll("after the outage", patient) != operations; {
		if time.Since(began) > time.Minute {
			t.Fatal("not all answers are saved, and the server is back")
		}
	}
	other := retrysafe.New(openMigrated(t, openPool(t, url)), retrysafe.Options{SweepEvery: -1})
	retryAll("in another process", other)
}
