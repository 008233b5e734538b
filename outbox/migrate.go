package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
)

// ErrNewerSchema is returned by Migrate when a newer version of this package made the table. Use that version.
var ErrNewerSchema = errors.New("outbox: the schema is newer than this version knows")

// Migration is one step of the schema's history: its version, counted from 1, its name and its SQL.
type Migration struct {
	Version int
	Name    string
	SQL     string
}

// Migrations returns all migrations in ascending order, to be read or applied by another tool.
func (b *Outbox) Migrations() []Migration { return slices.Clone(b.sql.migrations) }

// Migrate creates the table or updates it to this version, in one transaction. It may be repeated, and run by many
// processes at once. It returns the migrations that it applied. The error is ErrNewerSchema if the table's version is
// newer than this package; any other error comes from the database, and nothing was changed.
//
// MySQL commits every step by itself: a Migrate that failed may have created the table, and is repeated. There Migrate
// needs the privilege CREATE even if the table exists, and does not create Options.Schema, which is a database.
func (b *Outbox) Migrate(ctx context.Context) (applied []Migration, err error) {
	err = b.inTx(ctx, func(conn *sql.Conn) error {
		var locked sql.NullInt64
		if err := conn.QueryRowContext(ctx, b.sql.lock).Scan(&locked); err != nil {
			return err
		}
		if locked.Int64 != 1 {
			return errors.New("another migration of this database has not ended within a minute; try again")
		}
		defer b.unlock(ctx, conn)
		applied, err = b.migrate(ctx, conn)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("outbox: migrate: %w", err)
	}
	return applied, nil
}

func (b *Outbox) migrate(ctx context.Context, conn *sql.Conn) ([]Migration, error) {
	if _, err := conn.ExecContext(ctx, b.sql.prepare); err != nil {
		return nil, err
	}
	var version int
	if err := conn.QueryRowContext(ctx, b.sql.version).Scan(&version); err != nil {
		return nil, err
	}
	all := b.sql.migrations
	if version > len(all) {
		return nil, fmt.Errorf("%w: the table has version %d, this program supports up to %d", ErrNewerSchema,
			version, len(all))
	}
	for _, m := range all[version:] {
		if err := execEach(ctx, conn, m.SQL); err != nil {
			return nil, fmt.Errorf("%s: %w", m.Name, err)
		}
		if err := exec(ctx, conn, b.sql.migrated, m.Version, m.Name); err != nil {
			return nil, err
		}
	}
	return all[version:], nil
}

// unlock ends the lock of migrations, if it does not end with the transaction. If that fails, it closes the connection,
// which ends the lock too.
func (b *Outbox) unlock(ctx context.Context, conn *sql.Conn) {
	if b.sql.unlock != "" {
		b.finish(ctx, conn, b.sql.unlock)
	}
}
