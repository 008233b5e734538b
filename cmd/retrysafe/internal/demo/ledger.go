package demo

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
	"net/url"
	"path/filepath"

	_ "modernc.org/sqlite" // the driver of openLedger
)

var (
	//go:embed sql/charges.sql
	chargesSQL string
	//go:embed sql/insert.sql
	insertSQL string
	//go:embed sql/find.sql
	findSQL string
	//go:embed sql/one.sql
	oneSQL string
	//go:embed sql/list.sql
	listSQL string
)

// ledger is the API's own table of charges, in a file. Every row is money that a customer has paid.
type ledger struct{ db *sql.DB }

// row is one charge in the ledger.
type row struct {
	ID       int64  `json:"id"`
	Customer string `json:"customer"`
	Order    string `json:"order"`
	Amount   int    `json:"amount"`
}

// openLedger makes an empty ledger at path.
func openLedger(path string) (*ledger, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open the ledger: %w", err)
	}
	dsn := url.URL{Scheme: "file", Path: filepath.ToSlash(abs)}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, fmt.Errorf("open the ledger: %w", err)
	}
	db.SetMaxOpenConns(1)
	if _, err := db.Exec(chargesSQL); err != nil {
		db.Close()
		return nil, fmt.Errorf("make the ledger %s: %w", path, err)
	}
	return &ledger{db}, nil
}

func (l *ledger) close() error { return l.db.Close() }

// charge adds a row. With a key that the ledger has already, it adds nothing and returns the row that is there.
func (l *ledger) charge(r row, key string) (row, error) {
	added, err := l.db.Exec(insertSQL, r.Customer, r.Amount, r.Order, sql.NullString{String: key, Valid: key != ""})
	if err != nil {
		return row{}, fmt.Errorf("charge: %w", err)
	}
	n, err := added.RowsAffected()
	if err != nil {
		return row{}, fmt.Errorf("charge: %w", err)
	}
	if n == 0 {
		err = l.db.QueryRow(findSQL, key).Scan(&r.ID, &r.Customer, &r.Amount, &r.Order)
		return r, err
	}
	r.ID, err = added.LastInsertId()
	return r, err
}

// one returns a charge; sql.ErrNoRows if there is none of that number.
func (l *ledger) one(ctx context.Context, id int64) (r row, err error) {
	err = l.db.QueryRowContext(ctx, oneSQL, id).Scan(&r.ID, &r.Customer, &r.Amount, &r.Order)
	return r, err
}

// rows returns every charge ever made, the oldest first.
func (l *ledger) rows(ctx context.Context) ([]row, error) {
	found, err := l.db.QueryContext(ctx, listSQL)
	if err != nil {
		return nil, fmt.Errorf("count the charges: %w", err)
	}
	defer found.Close()
	all := []row{}
	for found.Next() {
		var r row
		if err := found.Scan(&r.ID, &r.Customer, &r.Amount, &r.Order); err != nil {
			return nil, fmt.Errorf("count the charges: %w", err)
		}
		all = append(all, r)
	}
	return all, found.Err()
}
