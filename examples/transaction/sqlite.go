package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	_ "modernc.org/sqlite" // the driver

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/sqlitestore"
)

// sqliteSchema has two tables that must agree.
const sqliteSchema = `
CREATE TABLE IF NOT EXISTS payments (id INTEGER PRIMARY KEY, amount INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS ledger (payment INTEGER NOT NULL REFERENCES payments, amount INTEGER NOT NULL);`

// sqlite is one file for the tables and the keys.
type sqlite struct {
	db    *sql.DB
	store *sqlitestore.Store
}

func openSQLite(path string) (*sqlite, error) {
	// Transactions must be immediate and wait for each other, as sqlitestore.New requires.
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(10000)")
	if err != nil {
		return nil, err
	}
	if _, err := db.Exec(sqliteSchema); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	store, err := sqlitestore.New(db, sqlitestore.Options{})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &sqlite{db, store}, nil
}

func (s *sqlite) pay(ctx context.Context, amount int64, answer func(id int64)) error {
	return s.store.InTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		id, err := savePayment(ctx, tx, amount)
		if err != nil {
			return err
		}
		answer(id)
		return nil
	})
}

// savePayment works in SQLite and in PostgreSQL.
func savePayment(ctx context.Context, tx *sql.Tx, amount int64) (id int64, err error) {
	err = tx.QueryRowContext(ctx, "INSERT INTO payments (amount) VALUES ($1) RETURNING id", amount).Scan(&id)
	if err != nil {
		return 0, fmt.Errorf("payment: %w", err)
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO ledger (payment, amount) VALUES ($1, $2)", id, -amount); err != nil {
		return 0, fmt.Errorf("ledger: %w", err)
	}
	return id, nil
}

func (s *sqlite) records() retrysafe.Store { return s.store }

func (s *sqlite) close() error { return errors.Join(s.store.Close(), s.db.Close()) }
