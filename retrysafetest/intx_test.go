package retrysafetest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/retrysafetest"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// Seen to fail with effects applied at once inside InTx, with effects applied before the completion is saved, and with
// none applied.
func TestInTx(t *testing.T) {
	storetest.RunInTx(t, storetest.TxHarness{Open: func(*testing.T) storetest.TxStore {
		s, rows := retrysafetest.NewStore(), 0
		return storetest.TxStore{
			Store: s,
			InTx: func(ctx context.Context, f func(context.Context, func(string) error) error) error {
				return s.InTx(ctx, func(ctx context.Context) error {
					return f(ctx, func(sql string) error {
						switch {
						case strings.HasPrefix(sql, "INSERT INTO storetest_rows"):
							s.Apply(ctx, func() { rows++ })
							return nil
						case strings.HasPrefix(sql, "INSERT"):
							return errors.New("no such table")
						}
						return fmt.Errorf("%s: %w", sql, errors.ErrUnsupported)
					})
				})
			},
			Rows: func(*testing.T) int { return rows },
		}
	}})
}

// What a function has answered before it failed is forgotten, as with the real stores. Seen to fail with RolledBack
// left out: the client gets 201.
func TestAnswerOfAFailedTransaction(t *testing.T) {
	s := subject(func(c *setup) {
		c.handler = func(s *shop) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				err := s.store.InTx(r.Context(), func(ctx context.Context) error {
					s.insert(ctx)
					created(w)
					return errors.New("the constraint")
				})
				http.Error(w, err.Error(), http.StatusConflict)
			}
		}
	})
	w := httptest.NewRecorder()
	s.Handler.ServeHTTP(w, s.NewRequest("k"))
	if w.Code != http.StatusConflict || w.Body.String() != "the constraint\n" || s.Effects() != 0 {
		t.Errorf("got %d %q and %d effects; want the handler's 409 and none", w.Code, w.Body, s.Effects())
	}
}

// Seen to fail with steps left out of the transaction.
func TestStepsInTxAreSaved(t *testing.T) {
	store := retrysafetest.NewStore()
	guard, key := retrysafe.New(store, retrysafe.Options{}), retrysafe.Key{ID: "k"}
	_, err := retrysafe.Do(t.Context(), guard, retrysafe.Request{Key: key}, func(ctx context.Context, a *retrysafe.Attempt) (string, error) {
		return "done", store.InTx(ctx, func(ctx context.Context) error {
			_, err := charge(ctx, a)
			return errors.Join(err, retrysafe.SetResult(ctx, "done"))
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	records, err := store.Inspect(t.Context(), key.Digest())
	if err != nil || len(records) != 1 || len(records[0].Steps) != 1 || records[0].Steps[0].Name != "charge" {
		t.Errorf("got %v, %v; want a record with the step", records, err)
	}
}

// down is a store that cannot be asked.
type down struct{ retrysafe.Store }

func (down) Claim(context.Context, retrysafe.ClaimParams) (retrysafe.Claim, error) {
	return retrysafe.Claim{}, errors.New("down")
}

// Seen to fail with attempts without protection completed as the others are.
func TestInTxWithoutProtection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the Guard undoes its claim in the background for as long as a lease lasts
		store, effects := retrysafetest.NewStore(), 0
		guard := retrysafe.New(down{store}, retrysafe.Options{Policy: retrysafe.Policy{OnStoreError: retrysafe.FailOpen}})
		request := retrysafe.Request{Key: retrysafe.Key{ID: "k"}}
		_, err := retrysafe.Do(t.Context(), guard, request, func(ctx context.Context, _ *retrysafe.Attempt) (string, error) {
			return "done", store.InTx(ctx, func(ctx context.Context) error {
				store.Apply(ctx, func() { effects++ })
				return nil
			})
		})
		if err != nil || effects != 1 {
			t.Errorf("got %v and %d effects, want 1", err, effects)
		}
		if err := guard.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
}
