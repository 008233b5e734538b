package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// maxReaders is how many connections read at the same time, if the pool allows that many.
const maxReaders = 4

// readers are connections of their own: reading waits neither for the writer nor for a sync, and sees all that is
// committed, which is all that is on disk.
type readers struct {
	path  string
	clock *clock
	free  chan *reader
	all   []*reader
}

type reader struct {
	conn *sql.Conn
	run  *connRunner
}

// read calls f with a connection once one is free.
func (p *readers) read(ctx context.Context, f func(run runner, now instant) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var r *reader
	select {
	case r = <-p.free:
	case <-ctx.Done():
		return ctx.Err()
	}
	if r == nil {
		return ErrClosed
	}
	defer func() { p.free <- r }()
	var err error
	rawErr := r.conn.Raw(func(any) error {
		err = f(r.run, p.clock.now())
		return nil // the connection stays good
	})
	return explain(p.path, errors.Join(err, rawErr))
}

// close waits for those who read, and closes the connections. Later readers get ErrClosed.
func (p *readers) close() error {
	var errs []error
	for range p.all {
		r := <-p.free
		errs = append(errs, closeConn(r.conn, r.run))
	}
	close(p.free)
	return errors.Join(errs...)
}

// openConn takes a connection out of the pool and prepares it.
func openConn(ctx context.Context, db *sql.DB) (*sql.Conn, *connRunner, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, nil, err
	}
	var run *connRunner
	err = conn.Raw(func(driverConn any) (err error) {
		run, err = newConnRunner(driverConn)
		return err
	})
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	return conn, run, nil
}

// busyTimeout is for users who write past InTx.
const busyTimeout = "PRAGMA busy_timeout = 10000"

// configure sets what counts for one connection.
func configure(ctx context.Context, conn *sql.Conn, b logBounds) error {
	for _, pragma := range []string{
		busyTimeout,
		"PRAGMA synchronous = FULL", // sync before every commit
		"PRAGMA cache_size = -8192", // 8 MiB, for which the allocator, in powers of two, takes 16
		fmt.Sprint("PRAGMA wal_autocheckpoint = ", b.longest),
	} {
		if _, err := conn.ExecContext(ctx, pragma); err != nil {
			return fmt.Errorf("%s: %w", pragma, err)
		}
	}
	return nil
}

func closeConn(conn *sql.Conn, run *connRunner) error {
	var err error
	rawErr := conn.Raw(func(any) error {
		err = run.close()
		return nil
	})
	return errors.Join(err, rawErr, conn.Close())
}
