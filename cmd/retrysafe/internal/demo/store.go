package demo

import (
	"context"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/store"
)

// openStore prepares a place of its own for the demo on the server of --store, and returns the function that drops it.
// Without --store it does nothing.
func (d Cmd) openStore(ctx context.Context) (keys Store, drop func() error, err error) {
	if d.Store == "" {
		return Store{}, func() error { return nil }, nil
	}
	ref, err := store.Parse(d.Store)
	if err != nil {
		return Store{}, nil, err
	}
	if ref.Place == nil {
		return Store{}, nil, cli.Refusef("--store %s: the demo supports the URL of a server, such as "+
			"postgres://USER@HOST/DATABASE; without --store it uses a file", ref.Name)
	}
	// A new name, so that nothing on the server is touched, not even another demo that runs at the same time.
	if ref, err = ref.Place.Beside("retrysafe_demo_" + retrysafe.NewOwner().String()[:8]); err != nil {
		return Store{}, nil, err
	}
	if _, err := ref.Place.Prepare(ctx); err != nil {
		return Store{}, nil, err
	}
	drop = ref.Place.Drop
	if d.Keep != "" {
		drop = func() error { return nil }
	}
	return Store{Name: ref.Name, URL: ref.URL, Postgres: ref.Postgres, Inbox: ref.Postgres != nil || ref.MySQL != nil}, drop, nil
}
