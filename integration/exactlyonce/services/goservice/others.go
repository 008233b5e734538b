package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"net/url"
	"os"

	_ "github.com/go-sql-driver/mysql"
)

// append charges without a key. As "first", it answers before that, as services do that acknowledge webhooks at once.
func (s *service) append(context.Context, string) error {
	first := os.Getenv("COMPLETE") == "first"
	if first {
		s.respond(http.StatusAccepted, "{}")
	}
	s.test.reach("claimed")
	ledger, err := os.OpenFile(os.Getenv("DATABASE"), os.O_APPEND|os.O_CREATE|os.O_WRONLY|os.O_SYNC, 0o600)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(ledger, s.order); err != nil {
		return err
	}
	s.test.reach("committed")
	if !first {
		s.respond(http.StatusCreated, fmt.Sprintf(`{"order": %q}`, s.order))
	}
	return ledger.Close()
}

// runMySQL is run with MariaDB.
func (s *service) runMySQL(ctx context.Context, lease string) error {
	at, err := url.Parse(os.Getenv("DATABASE"))
	if err != nil {
		return err
	}
	db, err := sql.Open("mysql", fmt.Sprintf("%s@tcp(%s)%s", at.User, at.Host, at.Path))
	if err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	s.test.reach("claimed")
	var amount, charge int
	if err := tx.QueryRowContext(ctx, "SELECT amount FROM prices WHERE article = 'book'").Scan(&amount); err != nil {
		return err
	}
	s.test.reach("begun")
	err = tx.QueryRowContext(ctx, "INSERT INTO charges (order_id, amount) VALUES (?, ?) RETURNING id", s.order, amount).Scan(&charge)
	if err != nil {
		return err
	}
	s.test.reach("written")
	answer := fmt.Sprintf(`{"charge": %d, "order": %q}`, charge, s.order)
	if _, err := tx.ExecContext(ctx, "CALL retrysafe_complete(?, ?, 201, NULL)", lease, answer); err != nil {
		return err
	}
	s.test.reach("completed")
	if err := tx.Commit(); err != nil {
		return err
	}
	s.test.reach("committed")
	s.respond(http.StatusCreated, answer)
	return nil
}
