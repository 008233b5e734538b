package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	_ "github.com/go-sql-driver/mysql"

	"github.com/retrysafe/retrysafe/bench/peers/plain"
	real "github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/stores/mysqlstore"
)

// mysqlServer is a private MariaDB of the run, with its data next to the other goals' data.
type mysqlServer struct {
	*real.MariaDB
	db   *sql.DB
	data string
}

// startMariaDB starts a server whose commits wait for the disk, with the memory and log of a small production server.
func startMariaDB(_ context.Context, r *run) (*mysqlServer, error) {
	data, err := reachable(r.dir)
	if err != nil {
		return nil, err
	}
	m, err := real.LaunchMariaDB(real.MariaDBOptions{DataDir: filepath.Join(data, "data"), Settings: map[string]string{
		"innodb-flush-log-at-trx-commit": "1", "innodb-doublewrite": "ON", "innodb-use-native-aio": "ON",
		"innodb-buffer-pool-size": "1G", "innodb-log-file-size": "2G",
		"back-log": "1024", // 256 callers connect at once
	}})
	if err != nil {
		return nil, err
	}
	s := &mysqlServer{MariaDB: m, data: data}
	if s.db, err = sql.Open("mysql", m.DSN("")); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return s, nil
}

func (s *mysqlServer) close() error {
	return errors.Join(s.db.Close(), s.Close(), os.RemoveAll(s.data))
}

// fresh makes a database anew, with the tables of both sides, and returns its data source name.
func (s *mysqlServer) fresh(ctx context.Context, name string) (string, error) {
	for _, text := range []string{"DROP DATABASE IF EXISTS " + name, "CREATE DATABASE " + name} {
		if _, err := s.db.ExecContext(ctx, text); err != nil {
			return "", fmt.Errorf("%s: %w", text, err)
		}
	}
	if _, err := mysqlstore.Migrate(ctx, s.db, mysqlstore.MigrateOptions{Database: name}); err != nil {
		return "", err
	}
	_, err := s.db.ExecContext(ctx, fmt.Sprintf(plain.MySQLTable, name))
	return s.DSN(name), err
}

// readMySQL reads the server's CPU time and the size of its redo log.
func readMySQL(ctx context.Context, db *sql.DB, pid int) (c counters, err error) {
	if c.cpu, err = familyCPU(pid); err != nil {
		return c, err
	}
	c.log, err = mysqlStatus(ctx, db, "Innodb_lsn_current")
	return c, err
}

// mysqlStatus returns a counter of the server.
func mysqlStatus(ctx context.Context, db *sql.DB, name string) (n int64, err error) {
	err = db.QueryRowContext(ctx, "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = ?",
		name).Scan(&n)
	return n, err
}
