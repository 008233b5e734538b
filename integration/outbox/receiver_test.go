//go:build unix

package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/outbox/webhook"
	"github.com/retrysafe/retrysafe/stores/mysqlstore"
	"github.com/retrysafe/retrysafe/stores/pgstore"
	"github.com/retrysafe/retrysafe/stores/sqlitestore"
)

// effectStore runs a statement in the transaction that completes the attempt.
type effectStore struct {
	retrysafe.Store
	inTx func(ctx context.Context, statement string) error
	now  string
}

// receiveOrders receives webhooks until it is killed; each has one effect.
func receiveOrders(d database) error {
	d.url = os.Getenv(receiverEnv)
	store, err := openEffects(d)
	if err != nil {
		return err
	}
	secrets, err := webhook.ParseSecrets(floodSecret)
	if err != nil {
		return err
	}
	guard := retrysafe.New(store.Store, retrysafe.Options{Policy: retrysafe.Policy{
		Lease: time.Second, OnAbandoned: retrysafe.Rerun(), // safe, because the effect is in the transaction
	}})
	verify := webhook.Verify(secrets, webhook.VerifyOptions{})
	once := httpsafe.Middleware(guard, httpsafe.ScopeNone(), httpsafe.Options{
		Required: true, Profile: httpsafe.IETF().WithHeader(webhook.HeaderID),
	})
	return serve(verify(once(store)))
}

func openEffects(d database) (effectStore, error) {
	ctx := context.Background()
	if d.dialect == outbox.SQLite {
		db, err := d.open()
		if err != nil {
			return effectStore{}, err
		}
		s, err := sqlitestore.New(db, sqlitestore.Options{})
		return effectStore{s, func(ctx context.Context, statement string) error {
			return s.InTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, statement)
				return err
			})
		}, "CAST(unixepoch('subsec') * 1000000 AS INTEGER)"}, err
	}
	if d.dialect == outbox.MySQL {
		db, err := d.open()
		if err != nil {
			return effectStore{}, err
		}
		if _, err := mysqlstore.Migrate(ctx, db, mysqlstore.MigrateOptions{}); err != nil {
			return effectStore{}, err
		}
		s, err := mysqlstore.New(ctx, db, mysqlstore.Options{})
		return effectStore{s, func(ctx context.Context, statement string) error {
			return s.InTx(ctx, db, func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, statement)
				return err
			})
		}, "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"}, err
	}
	pool, err := pgxpool.New(ctx, d.url)
	if err != nil {
		return effectStore{}, err
	}
	if _, err := pgstore.Migrate(ctx, pool, pgstore.MigrateOptions{}); err != nil {
		return effectStore{}, err
	}
	s, err := pgstore.New(ctx, pool, pgstore.Options{})
	return effectStore{s, func(ctx context.Context, statement string) error {
		return s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, statement)
			return err
		})
	}, "(date_part('epoch', clock_timestamp()) * 1e6)::bigint"}, err
}

// ServeHTTP is the guarded handler.
func (s effectStore) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var id int
	body, err := io.ReadAll(r.Body)
	if err == nil {
		_, err = fmt.Sscan(string(body), &id)
	}
	if err != nil {
		http.Error(w, "no order", http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusNoContent)
	if err := s.inTx(r.Context(), fmt.Sprintf("INSERT INTO effects VALUES (%d, %s)", id, s.now)); err != nil {
		w.Header().Set("Retry-After", "1") // nothing happened: the key is free again
		http.Error(w, "not now", http.StatusServiceUnavailable)
	}
}
