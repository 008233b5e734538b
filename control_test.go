package retrysafe_test

import (
	"context"
	"errors"
	"testing"

	"github.com/retrysafe/retrysafe"
)

// Seen to fail with the first digest replaced by the latest.
func TestCallsAreNotedForOneAttempt(t *testing.T) {
	bubble(t, retrysafe.Policy{OnAbandoned: retrysafe.Rerun()}, func(k *kit) {
		for range 2 {
			k.guard.Do(k.ctx, pay(), func(_ context.Context, a *retrysafe.Attempt) (retrysafe.Result, error) {
				for i, digest := range []string{"one", "two", "one"} {
					if first, again := a.Control().NoteCall("charge", digest); first != "one" || again != (i > 0) {
						k.Errorf("noted %q, again %v", first, again)
					}
				}
				if first, again := a.Control().NoteCall("mail", "three"); first != "three" || again {
					k.Errorf("another name: %q, %v", first, again)
				}
				return retrysafe.Result{}, retrysafe.Unknown(errors.New("cut off"))
			})
		}
	})
}
