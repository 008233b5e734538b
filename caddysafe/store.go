package caddysafe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/rueidis"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/pgstore"
	"github.com/retrysafe/retrysafe/stores/redisstore"
	"github.com/retrysafe/retrysafe/stores/sqlitestore"
)

// stores are the open stores by oneName of their path, or by their URL. They outlive a configuration: Caddy provisions
// the handlers of a new one before it cleans up those of the old one, and a SQLite file cannot be opened twice.
var stores = caddy.NewUsagePool()

// opening is held while a store is opened or closed, because a file that is being closed cannot be opened yet.
var opening sync.Mutex

// shared is an open store.
type shared struct {
	retrysafe.Store
	close func() error
}

// Destruct implements caddy.Destructor.
func (s *shared) Destruct() error { return s.close() }

// openShared returns the store at a path or URL, which is open already if another handler uses it, and sets key to what
// it is called in stores.
func openShared(ctx context.Context, at string, key *string) (retrysafe.Store, error) {
	if at == "" {
		return nil, errors.New("caddysafe: store is missing: the path of a SQLite file, or a URL of PostgreSQL or Redis")
	}
	if !strings.Contains(at, "://") {
		at = oneName(at)
	}
	opening.Lock()
	defer opening.Unlock()
	s, _, err := stores.LoadOrNew(at, func() (caddy.Destructor, error) { return open(ctx, at) })
	if err != nil {
		return nil, err
	}
	*key = at
	return s.(*shared).Store, nil
}

// oneName returns the same path for all paths of a file: a relative one, and one through a link.
func oneName(path string) string {
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		return target
	}
	if folder, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil { // the file is not there yet
		return filepath.Join(folder, filepath.Base(path))
	}
	return path
}

// closeShared gives a store back that openShared has returned, and closes it if no other handler uses it.
func closeShared(key string) error {
	opening.Lock()
	defer opening.Unlock()
	_, err := stores.Delete(key)
	return err
}

// risksTimeout bounds how long the look at the settings of a store's server may take.
const risksTimeout = 2 * time.Second

// logRisks warns of settings of the store's server that can lose claims, as the proxy does when it starts.
func logRisks(ctx context.Context, log *slog.Logger, store retrysafe.Store) {
	reporter, ok := store.(retrysafe.RiskReporter)
	if !ok {
		return
	}
	bounded, stop := context.WithTimeout(ctx, risksTimeout)
	defer stop()
	risks, err := reporter.Risks(bounded)
	if err != nil {
		log.Warn("the settings of the store could not be read: they may lose keys in a crash", "error", err)
	}
	for _, r := range risks {
		log.Warn("the store can lose keys", "setting", r.Setting, "loses", r.Loses, "instead", r.Remedy)
	}
}

// open opens the store at a path or URL. Its errors name no URL, which may have a password.
func open(ctx context.Context, at string) (*shared, error) {
	scheme, _, isURL := strings.Cut(at, "://")
	switch {
	case !isURL:
		s, err := sqlitestore.Open(at, sqlitestore.Options{})
		if err != nil {
			return nil, fmt.Errorf("caddysafe: %s: %w", at, err)
		}
		return &shared{s, s.Close}, nil
	case scheme == "postgres", scheme == "postgresql":
		return openPostgres(ctx, at)
	case scheme == "redis", scheme == "rediss":
		return openRedis(ctx, at)
	}
	return nil, fmt.Errorf("caddysafe: unsupported store scheme %q; supported: a path, postgres, redis, rediss", scheme)
}

func openPostgres(ctx context.Context, url string) (*shared, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("caddysafe: %w", err) // pgx leaves passwords out
	}
	// The pool outlives ctx, which is that of one configuration.
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), config)
	if err != nil {
		return nil, fmt.Errorf("caddysafe: %w", err)
	}
	s, err := pgstore.New(ctx, pool, pgstore.Options{})
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("caddysafe: %w", err)
	}
	return &shared{s, func() error {
		err := s.Close()
		pool.Close()
		return err
	}}, nil
}

func openRedis(ctx context.Context, url string) (*shared, error) {
	options, err := rueidis.ParseURL(url)
	if err != nil {
		return nil, errors.New("caddysafe: store is not a URL of Redis, such as redis://USER:PASSWORD@HOST:PORT")
	}
	options.DisableCache = true
	client, err := rueidis.NewClient(options)
	if err != nil {
		return nil, fmt.Errorf("caddysafe: connect to Redis: %w", err)
	}
	s, err := redisstore.New(ctx, client, redisstore.Options{})
	if err != nil {
		client.Close()
		return nil, fmt.Errorf("caddysafe: %w", err)
	}
	return &shared{s, func() error {
		client.Close()
		return nil
	}}, nil
}
