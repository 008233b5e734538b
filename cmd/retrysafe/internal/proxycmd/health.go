package proxycmd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe"
)

// health serves /healthz and /readyz.
type health struct {
	draining atomic.Bool

	mu      sync.Mutex
	store   retrysafe.Store // nil: not open yet
	checked time.Time
	result  error
}

const (
	checkEvery   = time.Second // at most, even if /readyz is requested more often
	checkTimeout = 2 * time.Second
	checkLease   = 10 * time.Second
)

// opened says that the store is open. Until then the process is not ready.
func (h *health) opened(store retrysafe.Store) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.store = store
}

func (h *health) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "alive") })
	mux.HandleFunc("GET /readyz", h.ready)
	return mux
}

// drain makes the process unready, because it is shutting down.
func (h *health) drain() { h.draining.Store(true) }

func (h *health) ready(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	if h.draining.Load() {
		http.Error(w, "shutting down", http.StatusServiceUnavailable)
		return
	}
	if err := h.check(r.Context()); err != nil {
		http.Error(w, "the store cannot take keys: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ready")
}

// check asks the store, unless it has just been asked.
func (h *health) check(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.store == nil {
		return errors.New("it is not open yet; the log says why")
	}
	if time.Since(h.checked) < checkEvery {
		return h.result
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), checkTimeout)
	defer stop()
	h.result, h.checked = takesKeys(ctx, h.store), time.Now()
	return h.result
}

// takesKeys claims a key in a store and releases it, as requests do.
func takesKeys(ctx context.Context, store retrysafe.Store) error {
	claim, err := store.Claim(ctx, retrysafe.ClaimParams{
		Key:   retrysafe.Key{Scope: "retrysafe readiness", ID: retrysafe.NewOwner().String()},
		Owner: retrysafe.NewOwner(),
		Lease: checkLease,
		Keep:  retrysafe.Retention{Replay: checkLease, Key: checkLease, Audit: checkLease},
	})
	if err != nil {
		return err
	}
	return store.Release(ctx, claim.Lease)
}
