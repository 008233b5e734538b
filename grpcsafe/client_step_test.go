package grpcsafe_test

import (
	"context"
	"errors"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/client"
	"github.com/retrysafe/retrysafe/rpcsafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// Seen to fail with StepFrom taken out of childKey: the method's name made the key.
func TestACallInAStepHasItsChildKey(t *testing.T) {
	k := newTown(t, rpcsafe.ClientOptions{}, works)
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{})
	var childKey string
	_, err := guard.Do(t.Context(), retrysafe.Request{Key: retrysafe.Key{ID: "parent"}},
		func(ctx context.Context, _ *retrysafe.Attempt) (retrysafe.Result, error) {
			_, err := retrysafe.Step(ctx, "charge", func(ctx context.Context, key string) (int, error) {
				childKey = key
				if err := k.create(ctx); err != nil {
					return 0, err
				}
				if err := k.create(ctx); !errors.Is(err, client.ErrUnnamedCall) {
					t.Errorf("a second call: %v", err)
				}
				return 1, k.create(client.WithOperation(ctx, "fee"))
			})
			return retrysafe.Result{}, err
		})
	want := []string{childKey, retrysafe.Key{ID: "parent"}.Child("fee")}
	if err != nil || len(k.keys) != 2 || k.keys[0] != want[0] || k.keys[1] != want[1] {
		t.Errorf("%v, keys %q, want %q", err, k.keys, want)
	}
}
