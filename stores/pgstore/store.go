package pgstore

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// Options of New. Options{} works.
type Options struct {
	// Schema that Migrate has made. Default "retrysafe".
	Schema string
	// Connections is how many connections of the pool claims and completions use at once. More operations wait for
	// the next batch: fewer connections make larger batches, which cost the server less. Default 2, and no more than
	// the pool may have, which is the greater of 4 and the number of CPUs unless its URL has pool_max_conns.
	Connections int
	// Timeout ends a transaction that the server does not answer. The operations in it fail, and whether they have
	// happened is unknown. The connection of Listen is given up, and made again, if it takes longer to begin.
	// Default 30 s.
	Timeout time.Duration
	// Listen is the configuration of the connection that receives notifications of keys that callers wait for:
	// directly, not through PgBouncer. Default: that of the pool. If no notification arrives, callers that wait poll.
	Listen *pgx.ConnConfig
}

const (
	defaultSchema      = "retrysafe"
	defaultConnections = 2
	defaultTimeout     = 30 * time.Second
)

func (o Options) withDefaults(pool *pgxpool.Pool) (_ Options, err error) {
	if o.Connections <= 0 {
		o.Connections = defaultConnections
	}
	o.Connections = min(o.Connections, int(pool.Config().MaxConns))
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	if o.Listen == nil {
		o.Listen = pool.Config().ConnConfig.Copy()
	}
	o.Schema, err = checkSchema(o.Schema)
	return o, err
}

// Store implements retrysafe.Store, Sweeper, Watcher, Inspector, Finder, SightingKeeper, Purger, Reopener and
// RiskReporter on PostgreSQL. It is safe for concurrent use.
type Store struct {
	pool     *pgxpool.Pool
	options  Options
	sql      *statements
	batcher  *storekit.Batcher[operation]
	guess    storekit.Guess
	grown    atomic.Bool // the table of claims has manyPages
	strict   bool        // the default isolation of the database is stricter than read committed
	watches  storekit.Watches
	listener *listener
	sweeper  sweeper
	daysSeen atomic.Pointer[time.Time] // when a transaction has last found those of today and tomorrow; nil: none has

	closing sync.Once
}

var (
	_ retrysafe.Store          = (*Store)(nil)
	_ retrysafe.Sweeper        = (*Store)(nil)
	_ retrysafe.Watcher        = (*Store)(nil)
	_ retrysafe.Inspector      = (*Store)(nil)
	_ retrysafe.Finder         = (*Store)(nil)
	_ retrysafe.SightingKeeper = (*Store)(nil)
	_ retrysafe.Purger         = (*Store)(nil)
	_ retrysafe.Reopener       = (*Store)(nil)
	_ retrysafe.RiskReporter   = (*Store)(nil)
)

// New returns a store in the database that pool connects to. The schema must exist: see Migrate. Close the Store before
// the pool.
//
// It returns an error that is [ErrNoSchema] if the schema is missing or too old, and [ErrNewerSchema] if a newer
// version of this package has changed it so that this one cannot work with it. Behind a PgBouncer that mixes up
// prepared statements the error, of New or of a later call, says how pool must connect.
func New(ctx context.Context, pool *pgxpool.Pool, o Options) (*Store, error) {
	o, err := o.withDefaults(pool)
	if err != nil {
		return nil, err
	}
	if err := checkVersion(ctx, pool, o.Schema, newestVersion()); err != nil {
		return nil, err
	}
	strict, err := isStrict(ctx, pool)
	if err != nil {
		return nil, err
	}
	s := &Store{pool: pool, options: o, sql: newStatements(o.Schema), strict: strict}
	s.batcher = storekit.NewBatcher(o.Connections, int(pool.Config().MaxConns), s.server())
	s.sweeper.start()
	s.listener = newListener(o, pool, &s.watches)
	return s, nil
}

// Close waits for the operations that have begun, and ends the goroutines and the connection that the Store has
// started. It leaves the pool open, and may be called again. Later calls of Claim, Extend, Checkpoint, Complete,
// Release and Watch return [ErrClosed]. The error is always nil.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.batcher.Workers.Close()
		s.listener.close()
	})
	return nil
}
