package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// The leases of many operations have ended, and the operations still run, when the server stops. Retries get the
// answers from memory, then from the record, and never an unknown outcome; after the first answer that another process
// can get, it gets all of them. Seen to fail with the check for unsaved ends taken out of claims: ErrStoreFailed in the
// outage, and ErrAbandoned after it.
func TestAnswersOutliveAnOutageOfPostgres(t *testing.T) {
	t.Parallel()
	const operations = 50
	pg := servers.StartPostgres(t, servers.PostgresOptions{})
	url := pg.Database(t)
	policy := retrysafe.Policy{Lease: time.Hour, HoldUnsaved: -1} // no heartbeat is due
	store := openPostgres(t, url)
	guard := retrysafe.New(store, retrysafe.Options{Policy: policy, SweepEvery: -1})
	keys := make([]retrysafe.Request, operations)
	began, away, ended := make(chan struct{}), make(chan struct{}), make(chan error)
	for i := range operations {
		keys[i].Key = retrysafe.Key{ID: fmt.Sprint(i)}
		go func() {
			_, err := guard.Do(t.Context(), keys[i], func(context.Context, *retrysafe.Attempt) (retrysafe.Result, error) {
				began <- struct{}{}
				<-away
				return retrysafe.Result{Body: []byte{byte(i)}}, nil
			})
			ended <- err
		}()
	}
	for range operations {
		<-began
	}
	pg.PsqlAt(t, url, "UPDATE retrysafe.claims SET ends_at = ends_at - 7200000000") // as if two hours had passed
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
	if n := retryAll("in the outage", guard); n != 0 {
		t.Errorf("%d answers say that they are saved, and the server is away", n)
	}
	if ends, bytes := guard.Unsaved(); ends != operations || bytes != operations {
		t.Errorf("%d ends of %d bytes wait to be saved, want %d", ends, bytes, operations)
	}
	pg.Start(t)
	// a try that takes longer than a second, as on a busy machine, has the answer handed out unsaved once more
	for began := time.Now(); retryAll("after the outage", guard) != operations; {
		if time.Since(began) > time.Minute {
			t.Fatal("not all answers are saved, and the server is back")
		}
	}
	other := retrysafe.New(openMigrated(t, openPool(t, url)), retrysafe.Options{SweepEvery: -1})
	retryAll("in another process", other)
}
