package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
)

// schema has two tables that must agree.
const schema = `
CREATE TABLE IF NOT EXISTS payments (id INTEGER PRIMARY KEY, amount INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS ledger (payment INTEGER NOT NULL REFERENCES payments, amount INTEGER NOT NULL);`

// openDB opens the file for the tables and the keys. Transactions must be immediate and wait for each other, as
// sqlitestore.New requires.
func openDB(path string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(10000)")
	if err != nil {
		return nil, err
	}
	if _, err := db.Exec(schema); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

func savePayment(ctx context.Context, tx *sql.Tx, amount int64) (id int64, err error) {
	saved, err := tx.ExecContext(ctx, "INSERT INTO payments (amount) VALUES (?)", amount)
	if err != nil {
		return 0, fmt.Errorf("payment: %w", err)
	}
	if id, err = saved.LastInsertId(); err != nil {
		return 0, fmt.Errorf("payment: %w", err)
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO ledger (payment, amount) VALUES (?, ?)", id, -amount); err != nil {
		return 0, fmt.Errorf("ledger: %w", err)
	}
	return id, nil
}

func answer(w http.ResponseWriter, id, amount int64) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Location", fmt.Sprintf("/payments/%d", id))
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, "{\"payment\":%d,\"amount\":%d}\n", id, amount)
}
