package lazyctx_test

import (
	"context"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/lazyctx"
	"github.com/retrysafe/retrysafe/internal/timerqueue"
)

// What contexts of attempts promise to work is tested in the root: context_test.go.

// Seen to fail with End not removing the entry: every context was kept until its time was up.
func TestEndedContextLeavesItsQueue(t *testing.T) {
	q := timerqueue.New()
	var c lazyctx.Context
	c.Init(&lazyctx.Detached{Values: context.Background()}, time.Now().Add(time.Hour), q)
	c.Done()
	if q.Empty() {
		t.Fatal("the context waits in no queue")
	}
	c.End(nil)
	if !q.Empty() {
		t.Error("the context has ended and still waits")
	}
}
