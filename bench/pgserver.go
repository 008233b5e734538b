package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe/bench/peers"
	"github.com/retrysafe/retrysafe/bench/peers/plain"
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
func (s *pgServer) store(ctx context.Context, schema string) (pgPlace, error) {
	_, err := pgstore.Migrate(ctx, s.pool, pgstore.MigrateOptions{Schema: schema})
	return pgPlace{URL: s.url(), Schema: schema}, err
}

// pgPlace is a schema with a store that a role opens.
type pgPlace struct{ URL, Schema string }

// pgConnections is the size of a pool, larger than any store needs.
const pgConnections = 24

// pgOpened is a store with its own pool.
type pgOpened struct {
	*pgstore.Store
	pool *pgxpool.Pool
}

func (a pgPlace) open(ctx context.Context) (pgOpened, error) {
	config, err := pgxpool.ParseConfig(a.URL)
	if err != nil {
		return pgOpened{}, err
	}
	config.MaxConns = pgConnections
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return pgOpened{}, err
	}
	store, err := pgstore.New(ctx, pool, pgstore.Options{Schema: a.Schema})
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

// readPostgres reads the CPU time of all of the server's processes, including ended ones, and the size of its log.
func readPostgres(ctx context.Context, pool *pgxpool.Pool, pid int) (c counters, err error) {
	if c.cpu, err = familyCPU(pid); err != nil {
		return c, err
	}
	err = pool.QueryRow(ctx, "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").Scan(&c.log)
	return c, err
}

// hotShare waits until the server has counted at least so many updates of an unused table, and returns the share of
// them that touched no index (HOT).
func (s *pgServer) hotShare(ctx context.Context, table string, atLeast int64) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	var all, hot int64
	for {
		err := s.pool.QueryRow(ctx, "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_all_tables "+
			"WHERE relid = $1::regclass", table).Scan(&all, &hot)
		if err != nil {
			return 0, fmt.Errorf("updates of %s, %d of at least %d: %w", table, all, atLeast, err)
		}
		if all >= atLeast {
			return float64(hot) / float64(max(all, 1)), nil
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// fillClaims fills a schema with completed claims as they are after a day: with random keys, spread evenly over a
// day, the youngest one minAge microseconds old, and kept for a day.
const fillClaims = `INSERT INTO %s.claims (k, owner, fence, first_fence, claimed_at, ends_at, keep_replay, keep_key,
	keep_audit,
	sweep_at, attempt, steps, code, state, omitted, waiters, take_over, fingerprint, scope, id)
SELECT gen_random_uuid(), gen_random_uuid(), t.at, t.at, t.at, t.at + 60000, day, day, day,
	(t.at + 60000 + day) / 60000000, 1, 0, 201, 3, false, false, false, %s, %s, lpad(i::text, 32, '0')::bytea
FROM (SELECT 86400000000, (date_part('epoch', now()) * 1e6)::bigint) c (day, now),
	generate_series(%d::bigint, %d::bigint) i, LATERAL (SELECT c.now - %d - c.day + i * (c.day / %d)) t (at)`

// fill inserts records and settles.
func (s *pgServer) fill(ctx context.Context, schema string, rows, minAge int64) error {
	if err := s.insert(ctx, schema, rows, minAge); err != nil {
		return err
	}
	return s.settle(ctx, schema)
}

// settle runs VACUUM and CHECKPOINT, so that they do not run during a measurement.
func (s *pgServer) settle(ctx context.Context, schema string) error {
	return s.exec(ctx, "VACUUM (ANALYZE) "+schema+".claims", "CHECKPOINT")
}

func (s *pgServer) insert(ctx context.Context, schema string, rows, minAge int64) error {
	const parts = 2
	return forEach(ctx, parts, 0, parts, func(ctx context.Context, i int64) error {
		return s.exec(ctx, fmt.Sprintf(fillClaims, schema, plain.Bytea([]byte(peers.Fingerprint)),
			plain.Bytea([]byte(peers.Scope)), i*rows/parts+1, (i+1)*rows/parts, minAge, rows))
	})
}
