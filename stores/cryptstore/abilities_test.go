package cryptstore_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/cryptstore"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// abilities says what a store can do beyond the contract of every store.
func abilities(s retrysafe.Store) string {
	_, sweeps := s.(retrysafe.Sweeper)
	_, watches := s.(retrysafe.Watcher)
	_, inspects := s.(retrysafe.Inspector)
	return fmt.Sprintf("sweeps: %t, watches: %t, inspects: %t", sweeps, watches, inspects)
}

func TestTheStoreCanWhatItsInnerStoreCan(t *testing.T) {
	m := memstore.New(memstore.Options{})
	type (
		store     struct{ retrysafe.Store }
		sweeper   struct{ retrysafe.Sweeper }
		watcher   struct{ retrysafe.Watcher }
		inspector struct{ retrysafe.Inspector }
	)
	s, sw, wa, in := store{m}, sweeper{m}, watcher{m}, inspector{m}
	for _, inner := range []retrysafe.Store{
		s,
		struct {
			store
			sweeper
		}{s, sw},
		struct {
			store
			watcher
		}{s, wa},
		struct {
			store
			inspector
		}{s, in},
		struct {
			store
			sweeper
			watcher
		}{s, sw, wa},
		struct {
			store
			sweeper
			inspector
		}{s, sw, in},
		struct {
			store
			watcher
			inspector
		}{s, wa, in},
		struct {
			store
			sweeper
			watcher
			inspector
		}{s, sw, wa, in},
	} {
		outer := encrypt(t, inner)
		if got, want := abilities(outer), abilities(inner); got != want {
			t.Errorf("got a store that %s, want one that %s", got, want)
		}
		if _, seals := outer.(retrysafe.Sealer); !seals || outer.(interface{ Unwrap() retrysafe.Store }).Unwrap() != inner {
			t.Errorf("a store that %s is hidden, or does not seal", abilities(inner))
		}
	}
}

// What an Inspector lacks of what Inspectors may have is an error that says so.
func TestWhatTheInnerStoreLacksIsUnsupported(t *testing.T) {
	m := memstore.New(memstore.Options{})
	s := encrypt(t, struct {
		retrysafe.Store
		retrysafe.Inspector
	}{m, m})
	var d retrysafe.Digest
	err := s.(retrysafe.Purger).Purge(t.Context(), d, 1, retrysafe.StepResult{})
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Purge: got %v, want ErrUnsupported", err)
	}
	if risks, err := s.(retrysafe.RiskReporter).Risks(t.Context()); len(risks) > 0 || err != nil {
		t.Errorf("Risks: %v, %v", risks, err)
	}
	if s.(retrysafe.FullScanner).ScansFully() {
		t.Error("the store scans fully, and its inner one does not say so")
	}
}

func TestNewPanicsWithoutKeys(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("New returns a store that cannot encrypt")
		}
	}()
	cryptstore.New(memstore.New(memstore.Options{}), nil, cryptstore.Options{})
}
