package retrysafetest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

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
