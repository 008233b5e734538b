package main

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jackc/pgx/v5/stdlib"
)

// sqlDB is a PostgreSQL database, used through database/sql. The store has a pool of pgx.
type sqlDB struct {
	*pgxPool
	db *sql.DB
}

func openSQLDB(ctx context.Context, url string) (*sqlDB, error) {
	p, err := openPgx(ctx, url)
	if err != nil {
		return nil, err
	}
	return &sqlDB{p, stdlib.OpenDBFromPool(p.pool)}, nil // or any other handle on the same database
}

func (s *sqlDB) pay(ctx context.Context, amount int64, answer func(id int64)) error {
	return s.store.InSQLTx(ctx, s.db, func(ctx context.Context, tx *sql.Tx) error {
		id, err := savePayment(ctx, tx, amount)
		if err != nil {
			return err
		}
		answer(id)
		return nil
	})
}

func (s *sqlDB) close() error { return errors.Join(s.db.Close(), s.pgxPool.close()) }
