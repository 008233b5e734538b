package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/demo"
	"github.com/retrysafe/retrysafe/stores/pgstore"
)

// openStore makes a schema for the demo, and returns what drops it again. Without --store there is nothing to make.
func (d demoCmd) openStore(ctx context.Context) (keys demo.Store, drop func() error, err error) {
	if d.Store == "" {
		return demo.Store{}, func() error { return nil }, nil
	}
	ref, err := parseStore(d.Store)
	if err != nil {
		return demo.Store{}, nil, err
	}
	p := ref.postgres
	if p == nil {
		return demo.Store{}, nil, refusef("--store %s: the demo knows postgres://USER@HOST/DATABASE, and a file of its own without --store", ref.name)
	}
	// A name of its own: whatever is in the database already is left alone, a demo that runs beside this one included.
	if p, err = p.withSchema("retrysafe_demo_" + retrysafe.NewOwner().String()[:8]); err != nil {
		return demo.Store{}, nil, err
	}
	pool, err := p.connect(ctx)
	if err != nil {
		return demo.Store{}, nil, err
	}
	defer pool.Close()
	if _, err := pgstore.Migrate(ctx, pool, pgstore.MigrateOptions{Schema: p.schema}); err != nil {
		return demo.Store{}, nil, p.explain(err)
	}
	drop = p.drop
	if d.Keep != "" {
		drop = func() error { return nil }
	}
	return demo.Store{Name: p.name, URL: p.url}, drop, nil
}

// dropPatience is how long dropping a schema may take.
const dropPatience = 20 * time.Second

// drop drops the schema and everything in it.
func (p *postgresRef) drop() error {
	ctx, stop := context.WithTimeout(context.Background(), dropPatience)
	defer stop()
	conn, err := pgx.ConnectConfig(ctx, p.pool.ConnConfig)
	if err == nil {
		_, err = conn.Exec(ctx, "DROP SCHEMA "+p.schema+" CASCADE", pgx.QueryExecModeSimpleProtocol)
		err = errors.Join(err, conn.Close(ctx))
	}
	if err != nil {
		return fmt.Errorf("drop schema %s: %w; do it by hand", p.schema, err)
	}
	return nil
}
