package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	real "github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/stores/pgstore"
)

// pgServer is a private PostgreSQL of the run, with its data next to the other goals' data.
type pgServer struct {
	*real.Postgres
	pool *pgxpool.Pool
	data string
}

// startPostgres starts a server that syncs, with the memory and log settings of a small production server.
func startPostgres(ctx context.Context, r *run) (*pgServer, error) {
	data, err := reachable(r.dir)
	if err != nil {
		return nil, err
	}
	pg, err := real.LaunchPostgres(real.PostgresOptions{DataDir: filepath.Join(data, "data"), Settings: map[string]string{
		"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on",
		"shared_buffers": "1GB", "max_wal_size": "8GB", "checkpoint_timeout": "15min",
	}})
	if err != nil {
		return nil, err
	}
	s := &pgServer{Postgres: pg, data: data}
	if s.pool, err = pgxpool.New(ctx, s.url()); err != nil {
		return nil, errors.Join(err, pg.Close())
	}
	return s, nil
}

func (s *pgServer) close() error {
	s.pool.Close()
	return errors.Join(s.Close(), os.RemoveAll(s.data))
}

// reachable makes a folder in dir in which the server's user can create folders, also if root runs the benchmark.
func reachable(dir string) (string, error) {
	folder, err := os.MkdirTemp(dir, "postgres")
	return folder, errors.Join(err, os.Chmod(dir, 0o711), os.Chmod(folder, 0o777))
}

func (s *pgServer) url() string { return s.URL("postgres") }

// program returns the path of a program of the server's installation, such as pgbench.
func (s *pgServer) program(name string) (string, error) {
	server, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", s.PID()))
	if err != nil {
		return "", err
	}
	path := filepath.Join(filepath.Dir(server), name)
	_, err = os.Stat(path)
	return path, err
}

// exec runs statements in sequence and ignores their results.
func (s *pgServer) exec(ctx context.Context, statements ...string) error {
	for _, text := range statements {
		if _, err := s.pool.Exec(ctx, text); err != nil {
			return fmt.Errorf("%.60s: %w", text, err)
		}
	}
	return nil
}

// store creates the schema and returns the parameters for opening a store on it.
func (s *pgServer) store(ctx context.Context, schema string) (pgAsked, error) {
	_, err := pgstore.Migrate(ctx, s.pool, pgstore.MigrateOptions{Schema: schema})
	return pgAsked{URL: s.url(), Schema: schema}, err
}

// pgAsked describes the store that a role opens.
type pgAsked struct {
	URL, Schema string
	Connections int // 0: the default number
}

// pgConnections is the size of a pool, larger than any store needs.
const pgConnections = 24

// pgOpened is a store with its own pool.
type pgOpened struct {
	*pgstore.Store
	pool *pgxpool.Pool
}

func (a pgAsked) open(ctx context.Context) (pgOpened, error) {
	config, err := pgxpool.ParseConfig(a.URL)
	if err != nil {
		return pgOpened{}, err
	}
	config.MaxConns = pgConnections
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return pgOpened{}, err
	}
	store, err := pgstore.New(ctx, pool, pgstore.Options{Schema: a.Schema, Connections: a.Connections})
	if err != nil {
		pool.Close()
		return pgOpened{}, err
	}
	return pgOpened{store, pool}, nil
}

func (o pgOpened) close() error {
	err := o.Close()
	o.pool.Close()
	return err
}

// pgReading is a reading of the server's counters.
type pgReading struct {
	cpu time.Duration // of all its processes, including ended ones
	wal int64         // bytes
}

func readPostgres(ctx context.Context, pool *pgxpool.Pool, pid int) (r pgReading, err error) {
	if r.cpu, err = familyCPU(pid); err != nil {
		return r, err
	}
	err = pool.QueryRow(ctx, "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").Scan(&r.wal)
	return r, err
}

// updates returns the number of updated rows of a table, and the number of updates that touched no index (HOT).
func (s *pgServer) updates(ctx context.Context, table string) (all, hot int64, err error) {
	err = s.pool.QueryRow(ctx, "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_all_tables WHERE relid = $1::regclass",
		table).
		Scan(&all, &hot)
	return all, hot, err
}

// hotShare waits until the server has counted at least so many updates of an unused table, and returns the share that
// was HOT.
func (s *pgServer) hotShare(ctx context.Context, table string, atLeast int64) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		all, hot, err := s.updates(ctx, table)
		if err != nil {
			return 0, fmt.Errorf("updates of %s: %w", table, err)
		}
		if all >= atLeast {
			return float64(hot) / float64(max(all, 1)), nil
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("%d updates of %s, want at least %d", all, table, atLeast)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
