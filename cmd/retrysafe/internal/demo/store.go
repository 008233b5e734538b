package demo

import (
	"context"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/storeurl"
	"github.com/retrysafe/retrysafe/stores/pgstore"
)

// openStore creates a schema for the demo, and returns the function that drops it. Without --store it does nothing.
func (d Cmd) openStore(ctx context.Context) (keys Store, drop func() error, err error) {
	if d.Store == "" {
		return Store{}, func() error { return nil }, nil
	}
	ref, err := storeurl.Parse(d.Store)
	if err != nil {
		return Store{}, nil, err
	}
	p := ref.Postgres
	if p == nil {
		return Store{}, nil, cli.Refusef("--store %s: the demo supports postgres://USER@HOST/DATABASE; without "+
			"--store it uses a file", ref.Name)
	}
	// A new name, so that nothing in the database is touched, not even another demo that runs at the same time.
	if p, err = p.WithSchema("retrysafe_demo_" + retrysafe.NewOwner().String()[:8]); err != nil {
		return Store{}, nil, err
	}
	pool, err := p.Connect(ctx)
	if err != nil {
		return Store{}, nil, err
	}
	defer pool.Close()
	if _, err := pgstore.Migrate(ctx, pool, pgstore.MigrateOptions{Schema: p.Schema}); err != nil {
		return Store{}, nil, p.Explain(err)
	}
	drop = p.Drop
	if d.Keep != "" {
		drop = func() error { return nil }
	}
	return Store{Name: p.Name, URL: p.URL}, drop, nil
}
