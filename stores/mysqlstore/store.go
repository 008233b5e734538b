package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// Options of New. Options{} works.
type Options struct {
	// Database that Migrate has made the tables in. Default: the one that the connections of db have selected.
	Database string
	// Connections is how many connections claims and completions use at once. More operations wait for the next batch:
	// fewer connections make larger batches, which cost the server less. The Store keeps these connections of db for
	// itself, because it changes settings of their sessions. Default 2, and one less than db may have open at most.
	// While other transactions hold rows locked, up to 8 more run batches, and up to Connections + 8 more run single
	// calls, as far as db may open them.
	Connections int
	// Timeout ends a transaction that the server does not answer. The operations in it fail, and whether they have
	// happened is unknown. Default 30 s.
	Timeout time.Duration
}

const (
	defaultConnections = 2
	defaultTimeout     = 30 * time.Second
)

// maxExtra is how many workers more there may be while some are held up.
const maxExtra = 8

func (o Options) withDefaults(ctx context.Context, db *sql.DB) (_ Options, err error) {
	if o.Connections <= 0 {
		o.Connections = defaultConnections
	}
	switch most := db.Stats().MaxOpenConnections; {
	case most == 1:
		return o, errors.New("mysqlstore: the pool may open only one connection: allow two at least, SetMaxOpenConns(2)")
	case most > 1:
		o.Connections = min(o.Connections, most-1)
	}
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	o.Database, err = checkDatabase(ctx, db, o.Database)
	return o, err
}

// Store implements retrysafe.Store, Sweeper, Watcher, Inspector, Finder, SightingKeeper, Purger, Reopener and
// RiskReporter on MySQL and MariaDB. It is safe for concurrent use.
type Store struct {
	db      *sql.DB
	options Options
	sql     *statements
	conns   *conns
	packet  int // the longest statement that the server takes, in bytes
	batcher *storekit.Batcher[operation]
	guess   storekit.Guess
	watches storekit.Watches
	poller  *poller
	sweeper sweeper

	daysSeen atomic.Pointer[time.Time] // when InTx has last had the partitions of the next days made; nil: it has not

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

// New returns a store in the database that db connects to. The tables must exist: see Migrate. Close the Store before
// db.
//
// It returns an error that is [ErrNoSchema] if the tables are missing or too old, and [ErrNewerSchema] if a newer
// version of this package has changed them so that this one cannot work with them. It also returns an error if db may
// open only one connection, because the Store keeps some for itself.
func New(ctx context.Context, db *sql.DB, o Options) (*Store, error) {
	o, err := o.withDefaults(ctx, db)
	if err != nil {
		return nil, err
	}
	s := &Store{db: db, options: o, sql: newStatements(o.Database), conns: newConns(db, o), sweeper: newSweeper()}
	err = s.read(ctx, func(c *conn) error {
		if err := checkVersion(ctx, c, o.Database, newestVersion()); err != nil {
			return err
		}
		return c.QueryRowContext(ctx, "SELECT @@max_allowed_packet").Scan(&s.packet)
	})
	if err != nil {
		s.conns.close()
		return nil, explain(err)
	}
	limit := o.Connections + maxExtra
	if most := db.Stats().MaxOpenConnections; most > 0 {
		limit = min(limit, most-1)
	}
	s.batcher = storekit.NewBatcher(o.Connections, limit, s.server())
	s.poller = newPoller(s)
	return s, nil
}

// Close waits for the operations that have begun, ends the goroutines that the Store has started, and closes the
// connections that it has kept. It leaves db open, and may be called again. Later calls of Claim, Extend, Checkpoint,
// Complete, Release and Watch return [ErrClosed]. The error is always nil.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.batcher.Workers.Close()
		s.poller.close()
		s.conns.close()
	})
	return nil
}
