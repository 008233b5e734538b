package main

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/examples/transaction/payments"
	"github.com/retrysafe/retrysafe/stores/pgstore"
)

// pgxPool is a PostgreSQL database, used with pgx.
type pgxPool struct {
	pool  *pgxpool.Pool
	store *pgstore.Store
}

func openPgx(ctx context.Context, url string) (*pgxPool, error) {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return nil, err
	}
	if _, err := pool.Exec(ctx, payments.Schema); err != nil {
		pool.Close()
		return nil, err
	}
	store, err := pgstore.New(ctx, pool, pgstore.Options{})
	if err != nil {
		pool.Close()
		return nil, err
	}
	return &pgxPool{pool, store}, nil
}

func (p *pgxPool) pay(ctx context.Context, amount int64, answer func(id int64)) error {
	return p.store.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		q := payments.New(tx)
		id, err := q.InsertPayment(ctx, amount)
		if err != nil {
			return err
		}
		if err := q.InsertEntry(ctx, id, -amount); err != nil {
			return err
		}
		answer(id)
		return nil
	})
}

func (p *pgxPool) records() retrysafe.Store { return p.store }

func (p *pgxPool) close() error {
	defer p.pool.Close()
	return p.store.Close()
}
