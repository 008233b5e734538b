package proxycmd

import (
	"context"
	"errors"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/clitest"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// sick is a store that can be made to fail, and that counts claims.
type sick struct {
	*memstore.Store
	err    error
	claims atomic.Int64
}

func (s *sick) Claim(ctx context.Context, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
	s.claims.Add(1)
	if s.err != nil {
		return retrysafe.Claim{}, s.err
	}
	return s.Store.Claim(ctx, p)
}

func (h *health) get(path string) (int, string) {
	w := httptest.NewRecorder()
	h.handler().ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	return w.Code, w.Body.String()
}

// Seen to fail with the release in takesKeys taken out, and with the pause in check taken out.
func TestReadinessAsksTheStoreNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &sick{Store: memstore.New(memstore.Options{})}
		h := &health{}
		code, text := h.get("/readyz")
		clitest.Want(t, "ready before the store is open", code, 503)
		clitest.WantText(t, "text", text, "not open yet")
		h.opened(store)
		for range 10 {
			code, _ := h.get("/readyz")
			clitest.Want(t, "ready", code, 200)
		}
		clitest.Want(t, "claims", store.claims.Load(), 1)
		stats, _ := store.Stats(t.Context())
		clitest.Want(t, "left behind", stats.Pending+stats.Released+stats.Succeeded, 0)

		store.err = errors.New("disk full")
		time.Sleep(checkEvery)
		code, text = h.get("/readyz")
		clitest.Want(t, "ready without a store", code, 503)
		clitest.WantText(t, "text", text, "disk full")
		code, _ = h.get("/healthz")
		clitest.Want(t, "alive without a store", code, 200)

		store.err = nil
		time.Sleep(checkEvery)
		code, _ = h.get("/readyz")
		clitest.Want(t, "ready again", code, 200)
		h.drain()
		code, _ = h.get("/readyz")
		clitest.Want(t, "ready while shutting down", code, 503)
	})
}
