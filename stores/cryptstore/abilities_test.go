package cryptstore_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/abilities"
	"github.com/retrysafe/retrysafe/stores/cryptstore"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/shardstore"
)

// can says what a store can do beyond the contract of every store.
func can(s retrysafe.Store) string {
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
		if got, want := can(outer), can(inner); got != want {
			t.Errorf("got a store that %s, want one that %s", got, want)
		}
		if _, seals := outer.(retrysafe.Sealer); !seals || outer.(interface{ Unwrap() retrysafe.Store }).Unwrap() != inner {
			t.Errorf("a store that %s is hidden, or does not seal", can(inner))
		}
	}
}

// No optional interface of the inner store is hidden, whatever is around what. Seen to fail with a type assertion of
// s.inner for As in the Purge of inspected and in its ScansFully, and with type assertions of a shard's Store for As in
// Find, endLease and sweep of shardstore.
func TestNoAbilityIsHidden(t *testing.T) {
	sharded := func(t *testing.T, inner retrysafe.Store) retrysafe.Store {
		s, err := shardstore.New([]shardstore.Shard{{Name: "a", Store: inner}}, shardstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for name, wrap := range map[string]func(t *testing.T, inner retrysafe.Store) retrysafe.Store{
		"encrypted": func(t *testing.T, inner retrysafe.Store) retrysafe.Store { return encrypt(t, inner) },
		"encrypted wrapper": func(t *testing.T, inner retrysafe.Store) retrysafe.Store {
			return encrypt(t, abilities.Wrapper{Store: inner})
		},
		"encrypted shards": func(t *testing.T, inner retrysafe.Store) retrysafe.Store {
			return encrypt(t, sharded(t, inner))
		},
		"encryption in shards": func(t *testing.T, inner retrysafe.Store) retrysafe.Store {
			return sharded(t, encrypt(t, inner))
		},
		"wrapper in shards": func(t *testing.T, inner retrysafe.Store) retrysafe.Store {
			return sharded(t, abilities.Wrapper{Store: inner})
		},
	} {
		t.Run(name, func(t *testing.T) {
			abilities.Check(t, func(inner retrysafe.Store) retrysafe.Store { return wrap(t, inner) })
		})
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
